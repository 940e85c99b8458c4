"""The life of a run, on one machine or on a cluster: parts start, and stop in reverse order."""

from __future__ import annotations

import contextlib
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import structlog

from wallaroo.dashboard.application import Watched
from wallaroo.dashboard.server import DashboardServer
from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime.engine import launch
from wallaroo.engine.realtime.pausing import Pause
from wallaroo.engine.realtime.running import RunningEngine
from wallaroo.engine.settings import EngineSettings
from wallaroo.engine.spark.java import Java, find_java
from wallaroo.engine.spark.java_version import warn_if_outdated
from wallaroo.engine.spark.session import Launch
from wallaroo.engine.stored import StateLayout
from wallaroo.gateway.explaining import Explaining
from wallaroo.gateway.internal_api.client import GatewayClient, chunks_address
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.resolution.hints import hints_of
from wallaroo.resolution.unused_addresses import unused_addresses
from wallaroo.run.dashboard import serve_dashboard
from wallaroo.run.settings import DashboardSettings
from wallaroo.run.state.classes import check_state_classes
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.stopping import StartInterrupted, StopSignals
from wallaroo.run.user_output import captured_user_output
from wallaroo.system.credentials import read_token
from wallaroo.system.private_files import private_files
from wallaroo.system.restarts import Restart
from wallaroo.system.scratch import Scratch, sweep
from wallaroo.wire.chunk_messages import News

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECK_INTERVAL_S = 0.2
"""Seconds between checks of whether all parts are running."""

log = structlog.get_logger("wallaroo")


class Lifecycle(ABC):
    """Starts the parts of a run and stops them, the last one first; a context manager.

    A subclass starts the parts in `_start`, and registers on `_stack` how to stop each of them.

    Args:
        dashboard: How the dashboard is served.
        java: Spark's virtual machine, if it has been started already.

    Raises:
        UsageError: The dashboard's token cannot be read.
    """

    _engine: RunningEngine
    """The engine, from `_start` on."""
    _pause: Pause
    """Pauses it."""

    def __init__(self, dashboard: DashboardSettings, java: Java | None = None) -> None:
        self._dashboard, self._java = dashboard, java
        file = dashboard.token_file
        self._dashboard_token = None if file is None else read_token(file)
        self._signals = StopSignals()
        self._stack = contextlib.ExitStack()
        self._hints: set[str] = set()
        """What was hinted at."""
        self._stopped: dict[str, Any] | None = None
        """Fields of the event `stopped`; None before the stop, and after a failure."""

    def __enter__(self) -> Self:
        self._stack.enter_context(private_files())
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Stop all parts, even if one of them fails to stop, and restore the signal handlers."""
        try:
            self._stack.close()
            if self._stopped is not None:
                log.info("stopped", **self._stopped)
        finally:
            self._signals.restore()

    def start(self) -> bool:
        """Start all parts; returns when messages flow.

        Returns:
            Whether they do; False if a stop signal arrived first.

        Raises:
            WallarooError: A part could not start.
        """
        try:
            with self._signals.during_start():
                ready = self._start()
                warn_if_outdated(find_java())
        except StartInterrupted:
            self._stopped = {"during": "start"}
            return False
        log.info("ready", **ready)  # from here on, a signal lets everything be processed
        return True

    @abstractmethod
    def _start(self) -> dict[str, Any]:
        """Start all parts; a stop signal raises `StartInterrupted` in here.

        Returns:
            Fields of the event `ready`.
        """

    @abstractmethod
    def _on_published(self, news: News) -> None:
        """Note what was published; called in a thread of the engine."""

    def _gateway_restarts(self) -> Sequence[Restart]:
        """The last restarts of the gateway, as far as this process makes them."""
        return ()

    def _load(self, reference: ApplicationRef) -> Application:
        with captured_user_output(), contextlib.chdir("."):  # what options name is relative to it
            application = reference.load()
            hints = [*hints_of(application)]
        self._signals.handle()  # user code may have replaced the handlers
        socket.setdefaulttimeout(None)  # that of user code would be that of Spark's connections
        for unused in unused_addresses(application, reference.args):
            log.warning("addresses not used", **asdict(unused))
        for hint in hints:
            if hint not in self._hints:  # code that is reloaded may have them again
                log.warning("this may not be what you mean", hint=hint)
        self._hints.update(hints)
        return application

    def _check_classes(self, state: StateDirectory, application: Application) -> None:
        with captured_user_output(application.name):
            check_state_classes(state.path, application)
        self._signals.handle()

    def _make_scratch(self) -> Path:
        """A directory for temporary files."""
        sweep()
        return Path(self._stack.enter_context(Scratch()))

    def _launch(self, settings: EngineSettings, layout: StateLayout, scratch: Path) -> Launch:
        """Begin to start the engine, which takes longest; `RunningEngine` completes it."""
        launched = launch(settings, layout, scratch, self._java)
        self._stack.callback(launched.stop)
        return launched

    def _run_engine(
        self,
        settings: EngineSettings,
        application: Application,
        state: StateDirectory,
        location: str,
        lease: int,
        launched: Launch,
        scratch: Path,
        claim: Callable[[SparkSession], None] = lambda _session: None,
        paused_since: float | None = None,
    ) -> None:
        """Complete what `_launch` began, with the gateway at *location*.

        *claim* is called once Spark runs, before a query writes to the checkpoint.
        """
        self._engine = RunningEngine(
            settings,
            Program(application, state.fixed.buckets),
            state.layout,
            lease,
            partial(chunks_address, location, lease, application.wiring),
            launched,
            scratch,
            self._on_published,
            claim,
            held=paused_since is not None,
        )
        self._pause = Pause(self._engine, paused_since)

    def _serve_dashboard(
        self, application: Application, location: str, explaining: Callable[[], Explaining]
    ) -> DashboardServer | None:
        """Serve the dashboard, unless it is disabled.

        Args:
            application: The application.
            location: That of the internal API.
            explaining: Returns how histories are explained.
        """
        address = self._dashboard.address
        if address is None:
            return None
        client = GatewayClient(location, patience_s=0)
        watched = Watched(client, self._engine, self._pause, explaining, self._gateway_restarts)
        dashboard = serve_dashboard(
            address, application, watched, self._dashboard_token, self._dashboard.names
        )
        self._stack.callback(dashboard.close)
        return dashboard
