"""A batch that a killed driver has left over: it is ended as that driver would have ended it."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import structlog

from wallaroo.dataflow.program import Program
from wallaroo.engine.base import EngineSettings
from wallaroo.engine.registry import engine
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.internal_api.connector import Connector
from wallaroo.run.lease import LeaseRenewal, set_credentials
from wallaroo.run.settings import GatewayAccess
from wallaroo.run.state.agreement import GatewayFiles, agree
from wallaroo.run.state.classes import check_state_classes
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.user_output import hearing

log = structlog.get_logger("wallaroo")


def end_batch(
    settings: EngineSettings,
    state: StateDirectory,
    gateway: GatewayAccess,
) -> None:
    """End the batch that has begun in *state*, and begin no other.

    Args:
        settings: The application, and how to run it.
        state: Its state directory.
        gateway: Its gateway.

    Raises:
        WallarooError: The gateway is away, another driver has it, or the batch failed.
    """
    with hearing():
        application = settings.application.load()
        check_state_classes(state.path, application)
    set_credentials(gateway)
    location = gateway.location
    # in a pod of the driver's name, for it is in place of the driver that was killed
    claiming = LeaseRenewal(location, socket.gethostname())
    claim = claiming.claim(gateway.patience_s)
    program = Program(application, state.fixed.buckets)
    connector = Connector(location, claim.number, gateway.patience_s)
    try:
        agree(state, GatewayFiles(location, claim.number))
        with tempfile.TemporaryDirectory(prefix="wallaroo-") as scratch:
            chosen, layout = engine(), state.layout
            launched = chosen.launch(settings, layout, Path(scratch))
            running = chosen.start(settings, program, layout, connector, launched, Path(scratch))
            try:
                running.hold()
                running.finish_batch()
            except Exception as error:
                failure = running.failure() or str(error)
                msg = f"the batch that was left over failed again: {failure}"
                raise RuntimeFailure(msg) from error
            finally:
                running.stop()
    finally:
        claiming.release()
    log.info("ended the batch that was left over", state_dir=str(state.path))
