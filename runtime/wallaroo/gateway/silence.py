"""For how long sources were *held*: time in which messages may have waited to be read.

States with event time measure how long a key has been silent. While the gateway does not run, the
journal is full, or a log has more than was read, a key may have messages that nobody has seen, and
that time does not count as silence. If the messages that wait have times, the time between these
counts: a backlog of ten seconds is ten seconds of silence, however long it takes to read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from wallaroo.model.order import BEGINNING
from wallaroo.wire.records import TICK_SOURCE, Held

Reading = Callable[[], int | None]
"""Returns how far some logs have been read, in nanoseconds of their own time: `BEGINNING` if they
have more and how far is unknown, None if they have no more."""
SURE_NS = 1_000_000_000
"""Time for which it holds that logs have no more, if nobody looks again."""


class _Progress:
    """By how much time some logs have come on."""

    def __init__(self, reading: Reading) -> None:
        self.look = reading
        """Returns how far they are."""
        self._before = reading()

    def stands(self, now: int | None) -> bool:
        """Whether they are as far, *now*, as they were, and may come on yet."""
        return now == self._before and now is not None and now != BEGINNING

    def pass_to(self, now: int | None, passed_ns: int) -> int:
        """By how much they have come on to *now*, at most *passed_ns*."""
        before, self._before = self._before, now
        if before is None:
            return passed_ns if now != BEGINNING else min(passed_ns, SURE_NS)
        if now is None or BEGINNING in {before, now}:
            return 0
        self._before = max(before, now)
        return min(passed_ns, max(0, now - before))


class Meeting:
    """Sources whose messages meet in states with event time, which are held together.

    While they are held, what *clock* shows and for how long they were held grow alike.

    Args:
        clock: Returns the time, in nanoseconds.
        logs: How far their logs are read, for each set of them that is read in order.
        began_ns: What their clock shows first; None for the time.

    Example:
        >>> at, clock = [None, 5, 8, None], iter(range(0, 100, 10))
        >>> meeting = Meeting(lambda: next(clock), [lambda: at[0]])
        >>> [(at.pop(0), meeting.held())[1] for _ in range(3)]
        [0, 7, 17]
    """

    def __init__(
        self, clock: Callable[[], int], logs: Iterable[Reading], began_ns: int | None = None
    ) -> None:
        self._clock = clock
        self._logs = [_Progress(reading) for reading in logs]
        self._lock = threading.Lock()
        self._last_ns = clock()
        self._shown_ns = self._last_ns if began_ns is None else min(began_ns, self._last_ns)

    def held(self, at_ns: int | None = None) -> int:
        """For how long they were held until *at_ns*, which the clock showed; None for now.

        To be called before and after each change of a log.
        """
        with self._lock:
            now_ns = self._clock() if at_ns is None else at_ns
            passed_ns = max(0, now_ns - self._last_ns)
            looks = [(log, log.look()) for log in self._logs]
            if not any(log.stands(at) for log, at in looks):  # else as far as is known
                self._last_ns += passed_ns
                self._shown_ns += min(log.pass_to(at, passed_ns) for log, at in looks)
            return max(0, now_ns - self._shown_ns)


class Silence:
    """Knows for how long each source was held.

    Args:
        clock: Returns the time, in nanoseconds.
        is_full: Whether the journal has no room.
    """

    def __init__(self, clock: Callable[[], int], is_full: Callable[[], bool]) -> None:
        self._clock, self._is_full = clock, is_full
        self._shown: dict[int, int] = {}
        """What the clock of each source showed last, as the log says."""
        self._last_ns = 0
        self._since_ns: int | None = None
        self._meetings: dict[int, Meeting] = {}

    def restore(self, values: Mapping[str, Any] | None) -> None:
        """Take over what `to_json` returned."""
        if values is not None:
            self.stored(values["of"], values["last"])

    def to_json(self) -> dict[str, Any]:
        """What is to be known, as plain JSON values."""
        of = [(source, self._last_ns - shown_ns) for source, shown_ns in self._shown.items()]
        return {"of": of, "last": self._last_ns}

    def stored(self, held: Held, at_ns: int) -> None:
        """Note what a record says, of the time *at_ns*."""
        for source, held_ns in held:
            self._shown[source] = max(self._shown.get(source, 0), at_ns - held_ns)
        self._last_ns = max(self._last_ns, at_ns)

    def resume(self) -> None:
        """Begin; what has passed since the last record does not count as silence."""
        self._since_ns = self._last_ns or None

    def shown(self, sources: Iterable[int]) -> int | None:
        """What the clock of *sources*, which meet, showed last; None if nothing is known."""
        return self._shown_by(sources, self._last_ns or None)

    def watch(self, sources: Iterable[int], logs: Sequence[Reading]) -> Meeting:
        """Measure *sources*, which meet, from now on.

        Args:
            sources: Their indices.
            logs: How far their logs are read, for each set of them that is read in order.
        """
        indices = list(sources)
        began_ns = self._shown_by(indices, self._since_ns)
        meeting = Meeting(self._clock, [self._room, *logs], began_ns)
        self._meetings |= dict.fromkeys(indices, meeting)
        return meeting

    @property
    def is_watched(self) -> bool:
        """Whether there are sources to be measured."""
        return bool(self._meetings)

    def held(self, source: int, at_ns: int) -> Held:
        """For how long *source* was held until *at_ns*, as it is stored; all of them for a tick."""
        if source == TICK_SOURCE:
            held = {meeting: meeting.held(at_ns) for meeting in set(self._meetings.values())}
            return [(index, ns) for index, one in self._meetings.items() if (ns := held[one])]
        meeting = self._meetings.get(source)
        return [(source, ns)] if meeting is not None and (ns := meeting.held(at_ns)) else ()

    def _shown_by(self, sources: Iterable[int], otherwise: int | None) -> int | None:
        known = [self._shown[index] for index in sources if index in self._shown]
        return max(known, default=otherwise)

    def _room(self) -> int | None:
        return BEGINNING if self._is_full() else None
