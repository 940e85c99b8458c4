"""Leases on a gateway, which serves one driver at a time and numbers its leases.

A driver acquires the lease before it touches anything, and renews it while it is alive. Another
driver obtains the lease when the first one has released it, has been silent for some time, or has
the same name: a container that replaced its predecessor. From then on, calls under the old number,
the fencing token, are rejected.

A driver that is to take over from another one asks again and again, and says whether it could begin
at once. The holder learns of it when it renews its lease, and hands over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from wallaroo.errors import DamagedFile
from wallaroo.system.atomic_write import write_durably
from wallaroo.system.sealed_files import sealed, unsealed

LAPSE_S = 15.0
"""Seconds of silence after which a driver is presumed dead: several renewals or a pause of Java."""
LAPSE_READY_S = 6.0
"""The same for a driver that could begin at once: if the other one is alive, little is lost."""
RENEW_S = 2.0
"""Seconds between two renewals."""
_WAITS_S = 5.0
"""Seconds of silence after which a driver that waits for the lease is presumed dead."""
_MOST_BARRED = 20
"""Names that are kept: more than there are drivers at a time."""


@dataclass(frozen=True)
class _Known:
    number: int = 0
    """Number of the last lease."""
    holder: str | None = None
    """Name of the driver that has it; None if it was released."""
    barred: tuple[str, ...] = ()
    """Names of the drivers that do not take over from others, the last one first."""
    last: str | None = None
    """Name of the driver that had it before `holder`."""


@dataclass(frozen=True)
class Successor:
    """A driver that waits for the holder of the lease to hand over."""

    name: str
    """Its name."""
    ready: bool
    """Whether it could begin at once."""


class LeaseHeld(Exception):
    """Another driver has the lease."""


class Leases:
    """The leases of one gateway, stored in a file.

    Args:
        file: The file; created if missing.
        clock: Seconds, for tests.

    Raises:
        DamagedFile: The file was changed.
    """

    def __init__(self, file: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._clock = clock
        self._lock = threading.Lock()
        self._known = _Known()
        if file.exists():
            self._known = _read(file)
        else:
            self._keep(self._known)
        self._heard_at = clock()  # the holder may not have noticed that the gateway was away
        self.paused_since: float | None = None
        """Since when the driver was paused that has handed over to the holder; None if it was
        not."""
        self._successor: Successor | None = None
        self._asked_at = clock()
        """When the successor last asked."""

    @property
    def holder(self) -> str | None:
        """Name of the driver that has the lease; None if another one can acquire it at once."""
        with self._lock:
            is_silent = self._clock() - self._heard_at >= LAPSE_S
            return None if is_silent else self._known.holder

    def claim(self, holder: str, *, ready: bool | None = None) -> int:
        """Give the lease to the driver *holder*; returns its number.

        One that has handed over does not take over again, because its code is the older one. Nor
        does one that took over and went, if the older one had to come back: it would go again.

        Args:
            holder: Name of the driver.
            ready: Whether it could begin at once if another driver handed over; None if it is not
                to take over from any.

        Raises:
            LeaseHeld: Another driver has it, and was heard from recently.
        """
        with self._lock:
            known, now = self._known, self._clock()
            silent_s = now - self._heard_at
            lapse_s = LAPSE_READY_S if ready else LAPSE_S
            if known.holder not in {None, holder} and silent_s < lapse_s:
                if ready is not None and holder not in known.barred:
                    self._successor, self._asked_at = Successor(holder, ready), now
                msg = (
                    f"the driver {known.holder} has the lease of this gateway, and was last "
                    f"heard from {silent_s:.0f} s ago; two drivers cannot run one application"
                )
                raise LeaseHeld(msg)
            barred = known.barred
            gone = known.holder or known.last
            if holder in barred and gone not in {None, holder}:
                barred = (str(gone), *barred)
            others = tuple(name for name in barred if name != holder)[:_MOST_BARRED]
            self._keep(_Known(known.number + 1, holder, others))
            self._heard_at, self._successor = now, None
            if known.holder is not None:  # which has handed over nothing
                self.paused_since = None
            return self._known.number

    def renew(self) -> Successor | None:
        """Note that the driver is alive; its number was checked when its call came in.

        Returns:
            The driver that waits to take over; None if there is none.
        """
        with self._lock:
            self._heard_at = now = self._clock()
            if now - self._asked_at > _WAITS_S:
                self._successor = None
            return self._successor

    def release(self, *, hands_over: bool = False, paused_since: float | None = None) -> None:
        """Let any driver acquire the lease at once.

        Args:
            hands_over: Whether the holder has handed over to another driver.
            paused_since: Since when it was paused; None if it was not.
        """
        with self._lock:
            known = self._known
            barred = known.barred
            if hands_over and known.holder is not None:
                barred = (known.holder, *barred)[:_MOST_BARRED]
            self._keep(_Known(known.number, None, barred, known.holder or known.last))
            self.paused_since = paused_since

    def problem(self, number: int) -> str | None:
        """Why a call under the lease *number* is rejected; None if it is not."""
        known = self._known
        if number == known.number and known.holder is not None:
            return None
        if number > known.number:
            return "this gateway's volume is not the one whose lease the driver acquired"
        other = known.holder or "(gone)"
        return f"fenced out: the driver {other} has acquired the lease of this gateway since"

    def _keep(self, known: _Known) -> None:
        write_durably(self._file, sealed(asdict(known)))
        self._known = known


def _read(file: Path) -> _Known:
    """What *file* says.

    Raises:
        DamagedFile: It was changed.
    """
    try:
        values = unsealed(file.read_text())
        return _Known(**{**values, "barred": tuple(values.get("barred", ()))})
    except (ValueError, TypeError) as error:
        msg = (
            f"{file} is damaged: {error}; restore it from a copy, or remove it while no driver "
            "is running"
        )
        raise DamagedFile(msg) from error
