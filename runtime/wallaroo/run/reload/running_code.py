"""The code of its application that the parts of a run have: all of them the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import structlog

from wallaroo.dashboard.monitor import Watch
from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime.running import RunningEngine
from wallaroo.errors import RuntimeFailure, UsageError, WallarooError
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.reading import check_application
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.run.gateway_process import GatewayProcess
from wallaroo.run.local_gateway import LocalGateway
from wallaroo.run.reload.signature import serves_as_before
from wallaroo.run.standard_input import source_of
from wallaroo.run.state.classes import record_of, restore
from wallaroo.run.state.directory import StateDirectory

log = structlog.get_logger("wallaroo")


class Refused(WallarooError):
    """Other code is refused; the run continues with the previous code."""


class RunningCode:
    """The code of a run, and how its parts go on with other code.

    Args:
        application: The application that the parts run now.
        state: Its state.
        engine: The engine.
        gateway: The process of the gateway.
        local_gateway: How that is started.
        check_classes: Checks that the classes of the state fit an application, and records them.
        secret: Whether the sources require TLS.

    Attributes:
        watch: What the dashboard shows; None without a dashboard.
    """

    def __init__(
        self,
        application: Application,
        state: StateDirectory,
        engine: RunningEngine,
        gateway: GatewayProcess,
        local_gateway: LocalGateway,
        check_classes: Callable[[StateDirectory, Application], None],
        *,
        secret: bool,
    ) -> None:
        self._application, self._state, self._engine = application, state, engine
        self._gateway, self._local_gateway = gateway, local_gateway
        self.watch: Watch | None = None
        self._check_classes, self._secret = check_classes, secret
        self._classes: str | None = None
        """The record of the state's classes from before the last change."""

    def change(self, reference: ApplicationRef, application: Application) -> None:
        """Let the parts go on as *application*.

        Raises:
            Refused: The gateway does not start with it, or it does not read standard input as the
                present code does.
            RuntimeFailure: The run cannot go on at all.
        """
        self._check_input_of(application)

        def between() -> None:
            if not serves_as_before(self._application, application):
                self._replace_gateway(reference, application)
            self._classes = record_of(self._state.path)
            self._check_classes(self._state, application)

        with nullcontext() if self.watch is None else self.watch.replaced_by(application):
            program = Program(application, self._state.fixed.buckets)
            self._engine.reload(reference, program, between)
        self._application = application

    def restore_classes(self) -> None:
        """Restore the record of the state's classes, unless entities may be of the present code."""
        if not self._engine.has_published:
            restore(self._state.path, self._classes)

    def _check_input_of(self, application: Application) -> None:
        """Refuse changed code in which another source reads standard input than before.

        Raises:
            Refused: It is such code.
        """
        try:
            sources = [
                source_of(one, secret=self._secret) for one in (self._application, application)
            ]
        except UsageError as error:
            raise Refused(str(error)) from error
        before, after = (None if source is None else source.name for source in sources)
        if before != after:
            old, new = (f"source {one!r}" if one else "no source" for one in (before, after))
            msg = f"{old} reads standard input, and with this code {new}: start the run again"
            raise Refused(msg)

    def _replace_gateway(self, reference: ApplicationRef, application: Application) -> None:
        try:
            # senders need not connect again because of code that will be refused
            check_application(self._state.directory / LOG, application)
            log.info("gateway restarts", reason="what it serves may have changed")
            self._gateway.replace(self._local_gateway.command(reference, application))
        except RuntimeFailure as error:
            if self._gateway.failure is not None:
                raise
            raise Refused(str(error)) from error
