"""Which driver a gateway serves: one at a time, and each claim has a higher number than the last.

A driver claims the gateway before it touches anything, and renews its claim while it lives. Another
one gets it when the first has released it, has been silent for some time, or bears the same name:
a pod that took the place of its predecessor. From then on calls under the old number are refused.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from wallaroo.system.atomic_write import write_durably

LAPSE_S = 15.0
"""Seconds of silence after which a driver is taken for dead: some renewals, and a pause of Java."""
RENEW_S = 2.0
"""Seconds between two renewals."""


@dataclass(frozen=True)
class _Known:
    number: int = 0
    """Number of the last claim."""
    holder: str | None = None
    """Name of the driver that has it; None where it was released."""


class LeaseHeld(Exception):
    """Another driver has the gateway."""


class Leases:
    """The claims of one gateway, kept in a file.

    Args:
        file: Where they are kept; made if it is not there.
        clock: Seconds, for tests.
    """

    def __init__(self, file: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._clock = clock
        self._lock = threading.Lock()
        self._known = _Known()
        if file.exists():
            told = json.loads(file.read_text())
            self._known = _Known(told["number"], told["holder"])
        else:
            self._keep(self._known)
        self._heard_at = clock()  # whoever had it may not have noticed that the gateway was away

    @property
    def holder(self) -> str | None:
        """Name of the driver that has the gateway."""
        return self._known.holder

    def claim(self, holder: str) -> int:
        """Make the gateway *holder*'s; gives the number of the claim.

        Raises:
            ClaimHeld: Another driver has it, and was heard of a moment ago.
        """
        with self._lock:
            silent_s = self._clock() - self._heard_at
            if self._known.holder not in {None, holder} and silent_s < LAPSE_S:
                msg = (
                    f"the driver {self._known.holder} has this gateway, and was heard of "
                    f"{silent_s:.0f} s ago; two drivers cannot run one application"
                )
                raise LeaseHeld(msg)
            self._keep(_Known(self._known.number + 1, holder))
            self._heard_at = self._clock()
            return self._known.number

    def renew(self) -> None:
        """Note that the driver lives; its number was looked at when its call came in."""
        with self._lock:
            self._heard_at = self._clock()

    def release(self) -> None:
        """Let any driver have the gateway, at once."""
        with self._lock:
            self._keep(_Known(self._known.number, None))

    def problem(self, number: int) -> str | None:
        """Why a call under claim *number* is refused; None if it is not."""
        known = self._known
        if number == known.number and known.holder is not None:
            return None
        if number > known.number:
            return "this gateway's volume is another than the one the driver had claimed"
        return f"fenced out: the driver {known.holder or '(gone)'} has claimed this gateway since"

    def _keep(self, known: _Known) -> None:
        write_durably(self._file, json.dumps(asdict(known)))
        self._known = known
