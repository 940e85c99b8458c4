"""The faults of the network between driver and gateway."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

from tests.chaos.groups import Fault, Group
from tests.chaos.network import Network
from tests.chaos.system import KILL, System
from tests.chaos.turn import APART

SHORT_S = 5.0
LONG_S = 25.0
"""Longer than a lease lasts without news of its driver."""
ENDLESS_S = 75.0
"""Longer than a call to the gateway may take."""
DELAY_S = 0.2
"""How long a slow network holds back each piece of up to 64 KiB."""
_CUTS = 5


def _network(system: System) -> Network:
    assert system.network is not None
    return system.network


def _refused(system: System, _chance: random.Random) -> bool:
    network = _network(system)
    network.refuse()
    time.sleep(SHORT_S)
    network.accept()
    return True


def _stalled(seconds: float, meanwhile: Callable[[System], None] = lambda _: None) -> Fault:
    """Nothing gets through, and nobody is told; then everything that was held back comes."""

    def stall(system: System, _chance: random.Random) -> bool:
        network = _network(system)
        network.stall()
        meanwhile(system)
        time.sleep(seconds)
        network.go_on()
        return True

    return stall


def _stalled_then_cut(system: System, _chance: random.Random) -> bool:
    """As after a router has died: what was held back never comes."""
    network = _network(system)
    network.stall()
    time.sleep(LONG_S)
    ended = network.cut()
    network.go_on()
    return ended > 0


def _reset(system: System, _chance: random.Random) -> bool:
    return _network(system).cut() > 0


def _cut_in_frames(system: System, chance: random.Random) -> bool:
    ended = 0
    for _ in range(_CUTS):
        ended += _network(system).cut(chance)
        time.sleep(chance.uniform(0.5, 2.0))
    return ended > 0


def _delayed(system: System, _chance: random.Random) -> bool:
    network = _network(system)
    network.delay_s = DELAY_S
    time.sleep(LONG_S)
    network.delay_s = 0.0
    return True


def _killing(kind: str) -> Callable[[System], None]:
    return lambda system: system.signal(KILL, *system.processes(kind))


_FAULTS: Mapping[str, Fault] = {
    "network refuses connections for 5 s": _refused,
    "network resets all connections": _reset,
    "network cuts connections in mid-frame five times": _cut_in_frames,
    "network lets nothing through for 5 s": _stalled(SHORT_S),
    "network lets nothing through for 25 s": _stalled(LONG_S),
    "network lets nothing through for 75 s": _stalled(ENDLESS_S),
    "network lets nothing through for 25 s, then resets": _stalled_then_cut,
    "network delays everything by 0.2 s": _delayed,
    "kill the driver while nothing gets through": _stalled(LONG_S, _killing("driver")),
    "kill the gateway while nothing gets through": _stalled(LONG_S, _killing("gateway")),
}
NETWORK = Group(_FAULTS, shapes=frozenset({APART}))
"""Those of two machines."""
