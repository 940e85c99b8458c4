"""Leases on a gateway, which serves one driver at a time and numbers its leases.

A driver acquires the lease before it touches anything, and renews it while it is alive. Another
driver obtains the lease when the first one has released it, has been silent for some time, or has
the same name: a pod that replaced its predecessor. From then on, calls under the old number, the
fencing token, are rejected.
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
RENEW_S = 2.0
"""Seconds between two renewals."""


@dataclass(frozen=True)
class _Known:
    number: int = 0
    """Number of the last lease."""
    holder: str | None = None
    """Name of the driver that has it; None if it was released."""


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

    @property
    def holder(self) -> str | None:
        """Name of the driver that has the lease."""
        return self._known.holder

    def claim(self, holder: str) -> int:
        """Give the lease to the driver *holder*; returns its number.

        Raises:
            LeaseHeld: Another driver has it, and was heard from recently.
        """
        with self._lock:
            silent_s = self._clock() - self._heard_at
            if self._known.holder not in {None, holder} and silent_s < LAPSE_S:
                msg = (
                    f"the driver {self._known.holder} has the lease of this gateway, and was last "
                    f"heard from {silent_s:.0f} s ago; two drivers cannot run one application"
                )
                raise LeaseHeld(msg)
            self._keep(_Known(self._known.number + 1, holder))
            self._heard_at = self._clock()
            return self._known.number

    def renew(self) -> None:
        """Note that the driver is alive; its number was checked when its call came in."""
        with self._lock:
            self._heard_at = self._clock()

    def release(self) -> None:
        """Let any driver acquire the lease at once."""
        with self._lock:
            self._keep(_Known(self._known.number, None))

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
        return _Known(**unsealed(file.read_text()))
    except (ValueError, TypeError) as error:
        msg = (
            f"{file} is damaged: {error}; restore it from a copy, or remove it while no driver "
            "is running"
        )
        raise DamagedFile(msg) from error
