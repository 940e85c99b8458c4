"""Finishing the epoch that a killed driver has left, as that driver would have finished it."""

from __future__ import annotations

import socket
import time
from functools import partial
from pathlib import Path

import structlog

from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime.engine import launch
from wallaroo.engine.realtime.running import RunningEngine
from wallaroo.engine.settings import EngineSettings
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.internal_api.client import chunks_address
from wallaroo.run.lease_renewal import LeaseRenewal, set_credentials
from wallaroo.run.settings import GatewayAccess
from wallaroo.run.state.classes import check_state_classes
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.state.start_check import GatewayFiles, agree
from wallaroo.run.user_output import captured_user_output
from wallaroo.system.scratch import Scratch

log = structlog.get_logger("wallaroo")


def finish_unfinished_epoch(
    settings: EngineSettings, state: StateDirectory, gateway: GatewayAccess
) -> None:
    """Let Spark take into *state* what is published, and publish nothing else.

    Args:
        settings: The application, and how to run it.
        state: Its state directory.
        gateway: Its gateway.

    Raises:
        WallarooError: The gateway is unavailable, another driver holds its lease, or the query
            failed.
    """
    with captured_user_output():
        application = settings.application.load()
        check_state_classes(state.path, application)
    set_credentials(gateway)
    # a pod with the killed driver's name gets its lease immediately
    renewal = LeaseRenewal(gateway.location, socket.gethostname())
    lease = renewal.acquire(gateway.patience_s)
    program = Program(application, state.fixed.buckets)
    address = partial(chunks_address, gateway.location, lease, application.wiring)
    try:
        agree(state, GatewayFiles(gateway.location, lease))
        with Scratch() as directory:
            scratch, layout = Path(directory), state.layout
            launched = launch(settings, layout, scratch)
            running = RunningEngine(settings, program, layout, lease, address, launched, scratch)
            try:
                finish(running, gateway.patience_s)
            finally:
                running.stop()
    finally:
        renewal.release()
    log.info("unfinished epoch completed", state_dir=str(state.path))


def finish(running: RunningEngine, patience_s: float, pause_s: float = 0.2) -> None:
    """Finish the epoch of *running*; what is missing at first, such as the gateway, may come.

    Args:
        running: The engine; it is given no further chunk.
        patience_s: Seconds to keep trying.
        pause_s: Seconds between two attempts.

    Raises:
        RuntimeFailure: It cannot be finished.
    """
    give_up = time.monotonic() + patience_s
    while True:
        try:
            running.hold()
            return running.finish_epoch()
        except Exception as error:
            failure = running.failure()
            missing = failure is None and isinstance(error, RuntimeFailure)
            if not missing or time.monotonic() >= give_up:
                msg = f"the unfinished epoch cannot be ended: {failure or error}"
                raise RuntimeFailure(msg) from error
        time.sleep(pause_s)
