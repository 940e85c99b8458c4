"""The faults of machines: slow disks, wrong clocks, processes that stand still for long."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

from tests.chaos import shim
from tests.chaos.faults import kill_everything, stopping
from tests.chaos.groups import Fault, Group
from tests.chaos.system import System
from tests.chaos.turn import APART

SLOW_S = 20.0
"""How long a disk is slow."""
SYNC_S, LONG_SYNC_S = 0.1, 3.0
"""How much longer a sync takes: as on a network disk, and as on one that is about to fail."""
DAY_S = 86_400.0
AHEAD_S = 8.0
"""How long a clock is wrong."""
LONG_S = 20.0
ENDLESS_S = 75.0
"""Longer than a call to the gateway may take."""


def _slow_disk(sync_s: float) -> Fault:
    """Each sync of a file takes longer, on all machines."""

    def slow(system: System, _chance: random.Random) -> bool:
        for machine in system.machines.values():
            machine.tell(sync_s=sync_s)
        time.sleep(SLOW_S)
        for machine in system.machines.values():
            machine.tell()
        return True

    return slow


def _clock_jumps(*names: str, meanwhile: Callable[[System], None] = lambda _: None) -> Fault:
    """The clocks of the machines *names*, or of all, jump a day ahead, and back."""

    def jump(system: System, _chance: random.Random) -> bool:
        chosen = [system.machines[name] for name in names or system.machines]
        for machine in chosen:
            machine.tell(ahead_s=DAY_S)
        time.sleep(AHEAD_S / 2)
        meanwhile(system)
        time.sleep(AHEAD_S / 2)
        for machine in chosen:
            machine.tell()
        return True

    return jump


_MACHINE: Mapping[str, Fault] = {
    "disk that takes 0.1 s longer for each sync": _slow_disk(SYNC_S),
    "disk that takes 3 s longer for each sync": _slow_disk(LONG_SYNC_S),
    "clock a day ahead, and back": _clock_jumps(),
    "kill everything while the clock is a day ahead": _clock_jumps(meanwhile=kill_everything),
}
_OF_TWO: Mapping[str, Fault] = {
    f"clock of {name} a day ahead, and back": _clock_jumps(name)
    for name in ("the gateway", "the driver")
}
MACHINE = Group(_MACHINE, lacks=shim.lacking)
"""Those of any machine."""
TWO_MACHINES = Group(_OF_TWO, shapes=frozenset({APART}), lacks=shim.lacking)
"""Those of one machine of two."""
LONG_STOPS = Group(
    {
        "stop the driver for 20 s": stopping("driver", LONG_S),
        "stop the gateway for 20 s": stopping("gateway", LONG_S),
        "stop Spark's Java for 20 s": stopping("java", LONG_S),
        "stop the driver for 75 s": stopping("driver", ENDLESS_S),
        "stop the gateway for 75 s": stopping("gateway", ENDLESS_S),
        "stop Spark's Java for 75 s": stopping("java", ENDLESS_S),
        "stop a worker for 75 s": stopping("worker", ENDLESS_S, one=True),
    }
)
"""Processes that stand still for so long that they are taken for dead, or than calls may take."""
