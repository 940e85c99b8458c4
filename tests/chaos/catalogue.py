"""Which faults there are, and which of them fit which turn."""

from __future__ import annotations

from collections.abc import Mapping

from tests.chaos.faults import COMMON
from tests.chaos.groups import Fault, Group
from tests.chaos.kafka_faults import WITH_KAFKA
from tests.chaos.machine_faults import LONG_STOPS, MACHINE, TWO_MACHINES
from tests.chaos.memory_faults import MEMORY
from tests.chaos.network_faults import NETWORK
from tests.chaos.seams import AT_SOCKET, BETWEEN_LEVELS, SEAMS
from tests.chaos.turn import Turn

GROUPS: tuple[Group, ...] = (
    COMMON,
    MACHINE,
    MEMORY,
    LONG_STOPS,
    SEAMS,
    BETWEEN_LEVELS,
    AT_SOCKET,
    NETWORK,
    TWO_MACHINES,
    *WITH_KAFKA,
)
"""All, in the order of the report."""
FAULTS: Mapping[str, Fault] = {
    name: fault for group in GROUPS for name, fault in group.faults.items()
}
"""All faults, by name."""


def faults_of(turn: Turn) -> Mapping[str, Fault]:
    """The faults that can be injected in *turn* on this machine."""
    fitting = (group for group in GROUPS if group.fits(turn) and group.lacks() is None)
    return {name: fault for group in fitting for name, fault in group.faults.items()}


def lacking(turn: Turn) -> dict[str, str]:
    """The faults that fit *turn*, but not this machine, with what it lacks."""
    return {
        name: lack
        for group in GROUPS
        if group.fits(turn) and (lack := group.lacks()) is not None
        for name in group.faults
    }
