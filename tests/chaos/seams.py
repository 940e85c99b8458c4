"""The faults at the seams of the engine: its chunks, epochs, processes and sockets."""

from __future__ import annotations

import contextlib
import functools
import random
import time
from collections.abc import Mapping
from pathlib import Path

from tests.chaos.faults import killing, killing_at, stopping
from tests.chaos.groups import Fault, Group
from tests.chaos.sockets import TO_FIRST_STAGE, TO_GATEWAY, TO_PARTITION, connections, cut
from tests.chaos.system import GO_ON, KILL, PATIENCE_S, STOP, System
from tests.chaos.turn import TOGETHER, WITH_LEVELS

LONG_S = 20.0
"""How long a process stands still that is taken for dead, or is to be."""
_START_S = 40.0
"""How long to wait until a query that is started again has passed a place; also under load."""
_PUBLISHED_MS = 50
"""Within so many milliseconds what all processes have reported is published."""
_COMMIT_MS = 400
"""Within so many milliseconds Spark commits an epoch."""
REPORTED = "partition-after-report"
GATEWAY_PLACES = (
    "chunks-before-publish",
    "chunks-before-epoch-end",
    "chunks-after-epoch-end",
    "chunks-before-forget",
    "chunks-after-forget",
)
PROCESS_PLACES = (
    "reader-before-report",
    "reader-in-direct",
    "reader-in-save",
    "partition-before-report",
    REPORTED,
    "partition-in-direct",
    "partition-in-save",
)
START_PLACES = (
    "reader-before-begin",
    "reader-in-open",
    "partition-in-open",
    "partition-in-apply",
)
NAMES = {
    "driver": "the driver",
    "gateway": "the gateway",
    "java": "Spark's Java",
    "reader": "the first stage",
    "worker": "a partition",
}
"""What the report calls a kind of process."""


def _one(system: System, kind: str, chance: random.Random) -> list[int]:
    pids = system.processes(kind)
    return [chance.choice(pids)] if pids else []


def _killing_at_start(place: str) -> Fault:
    """The query is started again because a process is killed, and another one dies in its start."""

    def kill(system: System, chance: random.Random) -> bool:
        for _ in range(4):
            if not (pids := _one(system, chance.choice(["reader", "worker"]), chance)):
                continue
            # an epoch that has just begun has no changes to apply
            kill_one = functools.partial(system.reach, REPORTED, pids[0], _PUBLISHED_MS)
            if system.reach(place, meanwhile=kill_one, patience_s=_START_S):
                return True
        return False

    return kill


def _killing_in_commit(kind: str) -> Fault:
    """A process dies while Spark commits an epoch, or soon after."""

    def kill(system: System, chance: random.Random) -> bool:
        pids = _one(system, kind, chance)
        delay_ms = chance.randint(1, _COMMIT_MS)
        return bool(pids) and system.reach("chunks-after-epoch-end", pids[0], delay_ms)

    return kill


def _gateway_killed_while_stopped(kind: str) -> Fault:
    """The query is started again while one of its processes stands still."""

    def kill(system: System, chance: random.Random) -> bool:
        pids = _one(system, kind, chance)
        system.signal(STOP, *pids)
        system.signal(KILL, *system.processes("gateway"))
        time.sleep(LONG_S)
        system.signal(GO_ON, *pids)
        return bool(pids)

    return kill


def _woken_after_its_driver(kind: str) -> Fault:
    """A process stands still, perhaps in the end of an epoch, and wakes under another driver."""

    def wake(system: System, chance: random.Random) -> bool:
        pids = _one(system, kind, chance)
        if not pids:
            return False
        delay_ms = chance.randint(1, _COMMIT_MS)
        system.reach("chunks-after-epoch-end", pids[0], delay_ms, STOP)
        system.signal(STOP, *pids)  # no epoch may have ended
        starts = system.driver_starts
        system.signal(KILL, *system.processes("driver"))
        give_up = time.monotonic() + PATIENCE_S
        while system.driver_starts == starts and time.monotonic() < give_up:
            time.sleep(0.1)
        time.sleep(chance.uniform(0.0, 5.0))
        system.signal(GO_ON, *pids)
        while _is_there(pids[0]) and time.monotonic() < give_up:
            time.sleep(0.1)
        if _is_there(pids[0]):
            system.problems.append(f"{NAMES[kind]} outlived its driver")
        return True

    return wake


def _is_there(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def _cutting(name: str, *kinds: str) -> Fault:
    """A connection of the socket *name* is cut, at any moment, which one of *kinds* accepts."""

    def end(system: System, chance: random.Random) -> bool:
        give_up = time.monotonic() + LONG_S
        while time.monotonic() < give_up:
            for pid in [pid for kind in kinds for pid in _one(system, kind, chance)]:
                if descriptors := connections(pid, name):
                    with contextlib.suppress(OSError):
                        cut(pid, chance.choice(descriptors))
                        return True
            time.sleep(0.1)  # the query is just being started
        return False

    return end


_SEAMS: Mapping[str, Fault] = {
    "kill the first stage": killing("reader"),
    "kill the parent of all stages": killing("agent"),
    **{
        f"stop {NAMES[kind]} for 20 s": stopping(kind, LONG_S, one=True)
        for kind in ("reader", "worker")
    },
    **{f"kill at {place}": killing_at(place) for place in GATEWAY_PLACES},
    **{f"kill at {place}": killing_at(place) for place in PROCESS_PLACES},
    **{f"kill at {place}": _killing_at_start(place) for place in START_PLACES},
    **{
        f"kill {NAMES[kind]} while an epoch is committed": _killing_in_commit(kind)
        for kind in NAMES
    },
    **{
        f"kill the gateway while {NAMES[kind]} stands still": _gateway_killed_while_stopped(kind)
        for kind in ("java", "reader", "worker")
    },
    **{
        f"wake {NAMES[kind]} after its driver": _woken_after_its_driver(kind)
        for kind in ("java", "reader", "worker")
    },
    "cut the connection of the first stage and Java": _cutting(TO_FIRST_STAGE, "reader", "java"),
    "cut the connection of a partition and Java": _cutting(TO_PARTITION, "worker", "java"),
}
SEAMS = Group(_SEAMS)
"""Those of every application."""
BETWEEN_LEVELS = Group(
    {"kill at reader-before-level": killing_at("reader-before-level")},
    applications=WITH_LEVELS,
)
"""Those of applications with several levels."""
AT_SOCKET = Group(
    {"cut a connection to the gateway": _cutting(TO_GATEWAY, "gateway")},
    shapes=frozenset({TOGETHER}),
)
"""Those of the gateway's Unix socket."""
