"""Moments in the history of an application: a message, or a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Self

from wallaroo.errors import UsageError
from wallaroo.system.printable import shown_time

if TYPE_CHECKING:
    from wallaroo.history.changes import Arrival

_MILLISECOND_NS = 1_000_000


class Moment(NamedTuple):
    """A message, by its offset, or a millisecond."""

    offset: int | None
    at_ns: int = 0
    """Beginning of the millisecond, in nanoseconds since the Unix epoch."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The moment that *text* says.

        Raises:
            UsageError: It says none.

        Example:
            >>> Moment.parse("1,200").offset
            1200
            >>> moment = Moment.parse("2026-11-29T13:00:00.104Z")
            >>> Moment.parse("2026-11-29 14:00:00.104+01:00") == moment
            True
            >>> moment.shown()
            '2026-11-29T13:00:00.104Z'
        """
        number = text.replace(",", "")
        if number.isdecimal():
            return cls(int(number))
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            msg = f"{text!r} is neither an offset nor a time such as 2026-11-29T13:00:00 (UTC)"
            raise UsageError(msg) from None
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        milliseconds = (time - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
        return cls(None, milliseconds * _MILLISECOND_NS)

    def is_before(self, arrival: Arrival) -> bool:
        """Whether it is before *arrival*, which it does not include."""
        if self.offset is not None:
            return self.offset < arrival.offset
        return self.at_ns + _MILLISECOND_NS <= arrival.at_ns

    def is_after(self, arrival: Arrival) -> bool:
        """Whether it is after *arrival*, which it does not include."""
        if self.offset is not None:
            return self.offset > arrival.offset
        return self.at_ns > arrival.at_ns

    def shown(self) -> str:
        """It as text that `parse` takes."""
        return f"{self.offset:,}" if self.offset is not None else shown_time(self.at_ns)
