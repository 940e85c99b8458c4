"""A driver that starts beside another one until that hands over, and one that has handed over."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from wallaroo.engine.realtime.checkpoint import progress_of
from wallaroo.engine.realtime.placement import is_local
from wallaroo.engine.realtime.warm_up import warm_up
from wallaroo.engine.settings import EngineSettings
from wallaroo.engine.spark.executors import Executors
from wallaroo.engine.spark.session import Launch
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway.consistency.agreement import disagreement
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.model.application import Application
from wallaroo.run.kubernetes.room import GatewayRoom
from wallaroo.run.lease_renewal import LeaseRenewal
from wallaroo.run.state.classes import state_class_problem
from wallaroo.run.state.directory import StateDirectory, read_fixed

_EXECUTORS_S = 60.0
"""Seconds for the executors to be there: those of the other driver may have the room they need."""
_LOOK_EVERY_S = 0.05
_REST_S, _FREE_LOOKS = 1.0, 3
"""Seconds between looks whether the driver that took over is there, and how many of them in a row
find none before it has gone."""
_LOOKS, _LOOK_AGAIN_S = 3, 1.0
"""How often checkpoint and log have to disagree, and the pause between."""

log = structlog.get_logger("wallaroo")


def check_fit(state_dir: Path, application: Application, partitions: int) -> None:
    """Refuse *application* if it could not begin with the state that another driver uses.

    Raises:
        UsageError: It could not.
        DamagedFile: A file in *state_dir* was changed.
    """
    if not StateDirectory.has_state(state_dir):
        return
    fixed = read_fixed(state_dir)
    fixed.check_application(state_dir, application.name)
    fixed.check_partitions(state_dir, partitions)
    if (problem := state_class_problem(state_dir, application)) is not None:
        raise UsageError(problem)


def check_agreement(state_dir: Path, gateway: GatewayClient) -> None:
    """Refuse a state that does not belong to the log of the *gateway*; another driver uses both.

    Raises:
        UsageError: They do not belong together.
        RuntimeFailure: They cannot be read.
    """
    checkpoint = state_dir / "checkpoint"
    for look in range(_LOOKS):
        time.sleep(_LOOK_AGAIN_S if look else 0.0)  # an epoch may have ended meanwhile
        progress = progress_of(checkpoint)
        problem = disagreement(checkpoint, progress, gateway.held())
        if problem is None:
            return
    raise UsageError(str(problem))


def await_turn(
    launched: Launch,
    lease: LeaseRenewal,
    settings: EngineSettings,
    partitions: int,
    state_dir: Path,
    gateway_responds: Callable[[], bool],
) -> int:
    """Prepare Spark and its executors for the query, then wait until the lease is handed over.

    Args:
        launched: Spark, as it starts.
        lease: The lease that another driver holds.
        settings: What is to run.
        partitions: Partitions of the state.
        state_dir: Its directory.
        gateway_responds: Returns whether the gateway is there, whose next pod may need the room of
            executors that do not run yet.

    Returns:
        The fencing token.

    Raises:
        RuntimeFailure: Spark did not start.
    """
    session = launched.finish().session
    executors = None if is_local(settings.master) else Executors(session, settings.workers)
    room = None if executors is None else GatewayRoom(gateway_responds, executors)
    look_at = 0.0
    give_up = time.monotonic() + _EXECUTORS_S
    is_ready = False
    while (number := lease.granted(_LOOK_EVERY_S)) is None:
        if room is not None and time.monotonic() > look_at:
            room.look()
            look_at = time.monotonic() + GatewayRoom.EVERY_S
        running = settings.workers if executors is None else len(executors.running())
        is_complete = running >= settings.workers
        if is_ready or not (is_complete or time.monotonic() > give_up):
            continue
        if is_complete:
            warm_up(session, partitions, state_dir)
        log.info("ready to take over", workers=running, wanted=settings.workers)
        lease.be_ready()
        is_ready = True
    return number


def has_gone(location: str, stopping: threading.Event) -> bool:
    """Wait until the driver that took over has gone, or until *stopping* is set.

    Args:
        location: Location of the gateway's internal API.
        stopping: Set when this driver is to end.

    Returns:
        Whether the other one has gone.
    """
    client = GatewayClient(location, patience_s=0)
    looks = 0
    while looks < _FREE_LOOKS:
        if stopping.wait(_REST_S):
            return False
        with contextlib.suppress(RuntimeFailure):  # the gateway is being replaced, too
            looks = 0 if client.holder() else looks + 1
    log.warning("starting again", reason="the driver that took over has gone")
    return True
