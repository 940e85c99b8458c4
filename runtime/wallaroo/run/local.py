"""`wallaroo run`: an application on one machine, with its gateway as a child process."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
from rich.console import Console

from wallaroo.dashboard.server import DashboardServer
from wallaroo.dataflow.user_logs import UserLogs
from wallaroo.engine.realtime.placement import is_local
from wallaroo.engine.spark.java import Java
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway.dead_letters.policy import policies
from wallaroo.gateway.explaining import Explaining
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.status import GatewayStatus, SourceStatus
from wallaroo.gateway.settings import check_sinks
from wallaroo.loading.frozen_code import recorded
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.observability.log_channel import Channel
from wallaroo.observability.logs import relay
from wallaroo.run.completion import is_done, problem_of_sources
from wallaroo.run.drain import Drain
from wallaroo.run.gateway_process import GatewayProcess
from wallaroo.run.lifecycle import CHECK_INTERVAL_S, Lifecycle
from wallaroo.run.live_view import LiveView, can_show
from wallaroo.run.local_gateway import Command, LocalGateway, check_socket_path
from wallaroo.run.promotion import Promotions
from wallaroo.run.reload.promoter import Promoter
from wallaroo.run.reload.reloader import Reloader
from wallaroo.run.reload.running_code import RunningCode
from wallaroo.run.reload.switch import CodeSwitch, code_problem, frozen
from wallaroo.run.reload.trial import Trial, check_that_sources_end
from wallaroo.run.settings import LocalSettings
from wallaroo.run.standard_input import NoInput, StandardInput, source_of
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.state.location import default_state_dir, directory_of_log, state_here
from wallaroo.run.state.owner import Claim
from wallaroo.run.state.start_check import LocalFiles, agree
from wallaroo.run.stopping import StopDeadline
from wallaroo.system.restarts import Restart
from wallaroo.wire.chunk_messages import News

_HOLDER = "run"
"""Holder of the gateway's lease. The gateway is a child of this process and has no other driver."""

_CLOSING_S = 60.0
"""Seconds for the parts to stop after the drain timeout; a stop that takes longer is given up."""

log = structlog.get_logger("wallaroo")


class LocalRun(Lifecycle):
    """Runs an application on this machine until a stop signal or a failure, and drains it.

    Args:
        settings: What to run.
        gateway_command: Returns the command that starts a gateway as a child of this process.
        java: Spark's virtual machine, if it has been started already.

    Raises:
        UsageError: The dashboard's token cannot be read.
    """

    def __init__(
        self,
        settings: LocalSettings,
        gateway_command: Command,
        java: Java | None = None,
    ) -> None:
        super().__init__(settings.dashboard, java)
        self._settings = settings
        self._gateway_command = gateway_command
        self._gateway_pids: set[int] = set()
        self._environment: dict[str, str] = {}
        """Environment variables of the processes of this run."""
        limit_s = settings.drain_timeout_s + _CLOSING_S
        self._deadline = StopDeadline(self._signals, limit_s)
        self._input = NoInput()

    def _start(self) -> dict[str, Any]:
        settings = self._settings
        self._stack.enter_context(self._deadline)
        scratch = self._make_scratch()
        check_socket_path(scratch)
        self._collect_logs(scratch)
        reference = settings.engine.application
        application, files = self._load_first(reference)
        self._check(application)
        state = self._open_state(application)
        gateway = LocalGateway(
            settings, self._gateway_command, state.directory, scratch, self._stack
        )
        promotions = Promotions(state.directory)
        self._stack.callback(promotions.close)
        trial = Trial.of(settings, application.name, state.path)
        if settings.reload:
            reference = frozen(trial.application, files, scratch)
        self._set_environment(gateway.credentials())
        engine_settings = gateway.with_credentials(replace(settings.engine, application=reference))
        if is_local(engine_settings.master):  # Java may have been started without it
            engine_settings = replace(engine_settings, environment=self._environment)
        log.info(
            "starting",
            application=application.name,
            state_dir=str(state.path),
            master=settings.engine.master,
            resumes=not state.is_new,
        )
        launched = self._launch(engine_settings, state.layout, scratch)
        self._start_gateway(gateway, reference, application)
        lease = self._client.claim(_HOLDER)
        place = f"{socket.gethostname()}:{state.directory}"
        self._run_engine(
            engine_settings,
            application,
            state,
            gateway.location,
            lease,
            launched,
            scratch,
            Claim(state, gateway.location, lease, place, replaces=settings.accept_lost_journal),
        )
        self._stack.callback(self._stop_engine)
        code = RunningCode(
            application,
            state,
            self._engine,
            self._gateway,
            gateway,
            self._check_classes,
            secret=settings.has_source_tls,
        )
        self._switch = switch = CodeSwitch(reference, code, self._engine, scratch, self._load)
        dashboard = self._serve_dashboard(application, gateway.location, self._explaining)
        if dashboard is not None:
            code.watch = dashboard.watch
            self._show_live(application, dashboard)
        status = self.status()
        self._read_standard_input(application, status)
        stops = self._signals.received.wait
        self._reloader = Reloader(trial, files, switch, stops) if settings.reload else None
        self._promoter = Promoter(
            trial, settings.engine.master, promotions, switch, stops, reloads=settings.reload
        )
        return {
            "application": application.name,
            "sources": {s.name: self._where(s) for s in status.sources},
            "sinks": {s.name: s.where for s in status.sinks},
            "gateway": gateway.location,
            **({} if dashboard is None else {"dashboard": dashboard.url}),
        }

    def _load_first(self, reference: ApplicationRef) -> tuple[Application, dict[str, bytes]]:
        """The application and, if it is to be reloaded, what it imports from its directory."""
        if not self._settings.reload:
            return self._load(reference), {}
        if (problem := code_problem(reference, self._settings.engine.master)) is not None:
            msg = f"--reload: {problem}"
            raise UsageError(msg)
        assert reference.directory is not None
        with recorded(reference.directory) as files:
            return self._load(reference), files

    def _check(self, application: Application) -> None:
        """Refuse settings that do not fit *application*, before anything is written.

        Raises:
            UsageError: They do not fit.
        """
        settings = self._settings
        policies(settings.traffic.on_error, application)
        check_sinks(application)
        source_of(application, secret=settings.has_source_tls)
        if settings.until_done:
            check_that_sources_end(application)
        if settings.gateway_tls is not None and settings.gateway is None:
            msg = "--gateway-tls requires --gateway: a Unix socket uses no TLS"
            raise UsageError(msg)

    def _open_state(self, application: Application) -> StateDirectory:
        settings = self._settings
        path = settings.state_dir
        if path is None:
            path = default_state_dir(settings.engine.application, application.name)
            if (other := state_here(path, application.name)) is not None:
                advice = "name it with --state-dir to continue with it"
                log.warning("other state is not used", found=str(other), advice=advice)
        partitions = settings.partitions or settings.engine.workers
        directory = directory_of_log(path, settings.engine.application, application.name)
        state = StateDirectory(path, application.name, partitions, directory=directory)
        self._stack.callback(state.close)
        self._state_dir = state.directory
        self._check_classes(state, application)
        files = LocalFiles(state.directory, skip_damaged=settings.traffic.skip_damaged)
        agree(state, files, accept_lost=settings.accept_lost_journal)
        fixed, workers = state.fixed.partitions, settings.engine.workers
        if settings.partitions not in {None, fixed}:
            log.warning(
                "partitions are fixed",
                requested=partitions,
                partitions=fixed,
                reason=f"the state in {state.path} was created with this number",
            )
        elif workers > fixed:
            log.warning(
                "more workers than partitions",
                workers=workers,
                partitions=fixed,
                reason="state computations run on as many workers as there are partitions",
                advice="wallaroo repartition changes their number",
            )
        return state

    def wait(self) -> str | None:
        """Wait for a stop signal, the end of standard input, or until everything is done.

        A source that cannot be read does not keep what the others have brought from being
        processed and delivered.

        Returns:
            What failed; None if nothing did.
        """
        while not self._signals.received.wait(CHECK_INTERVAL_S):
            failure = self._failure_of_others() or self._switch.go_back(self._engine.failure())
            if failure is not None:
                return failure
            if self._reloader is not None:
                self._reloader.look()
            self._promoter.look()
            if self._pause.since is not None:
                continue
            if not self._settings.until_done:
                if self._has_input_ended():
                    return None
            elif self._is_done() and self._is_done_after_epoch():
                return problem_of_sources(self.status())
        return None

    def drain(self) -> bool:
        """Close the sources, and continue until everything is processed and delivered.

        A run that is paused processes nothing, and continues only until what it has published is
        delivered.

        Returns:
            Whether everything is; False after the drain timeout or another signal, and if messages
            wait in a run that is paused.

        Raises:
            RuntimeFailure: A part failed.
        """
        self._input.stop()
        drain = Drain(
            self._client,
            self._gateway,
            self._engine,
            self.status,
            self._failure,
            self._signals.received,
            self._settings.drain_timeout_s,
        )
        status, reason = drain.run(paused=self._pause.close())
        remaining = status.unprocessed + status.undelivered
        if remaining:
            self._warn_of_remaining(status, reason)
        self._stopped = {
            "accepted": {source.name: source.accepted for source in status.sources},
            "delivered": status.delivered,
            "set_aside": status.set_aside,
            "unknown_key": status.unknown_key,
            "late": status.late,
            "kept_for_next_start": remaining,
        }
        return not (remaining or self._deadline.has_given_up)

    def _warn_of_remaining(self, status: GatewayStatus, reason: str) -> None:
        away = {sink.name: sink.problem for sink in status.sinks if sink.problem is not None}
        log.warning(
            "stopping before all is delivered",
            reason=reason,
            not_processed=status.unprocessed,
            not_delivered=status.undelivered,
            **({"receivers_away": away} if away else {}),
            kept_in=str(self._state_dir),
            advice="start again with the same --state-dir to resume with them",
        )

    def status(self) -> GatewayStatus:
        """The gateway's status.

        Raises:
            RuntimeFailure: The gateway does not respond, or has failed for good.
        """
        try:
            return self._client.status()
        except RuntimeFailure as error:
            if self._gateway.failure is None:
                raise
            raise RuntimeFailure(self._gateway.failure) from error

    def _explaining(self) -> Explaining:
        archive = self._settings.traffic.journal.archive
        return Explaining.of(self._switch.application, self._state_dir, archive, is_here=True)

    def _show_live(self, application: Application, dashboard: DashboardServer) -> None:
        console = Console(stderr=True)
        shares = any(end.is_standard for end in (*application.sources, *application.sinks))
        if self._settings.live and can_show(console) and not shares:
            self._stack.enter_context(LiveView(application.name, dashboard.watch.now, console))

    def _is_done_after_epoch(self) -> bool:
        """Whether everything is still done at the end of the epoch: chunks may open windows."""
        try:
            self._engine.finish_epoch()
        except Exception:  # the query has failed, which `wait` finds at its next check
            return False
        return self._is_done()

    def _is_done(self) -> bool:
        return is_done(self.status(), self._input.source if self._input.ended else None)

    def _where(self, source: SourceStatus) -> str:
        """Where the messages of *source* come from, for people."""
        return "standard input" if source.name == self._input.source else source.where

    def _has_input_ended(self) -> bool:
        """Whether standard input has ended, and everything that came of it is delivered."""
        if not self._input.ended:
            return False
        status = self.status()
        waiting = sum(one.backlog for one in status.sources if one.name == self._input.source)
        return not (waiting or status.undelivered)

    def _read_standard_input(self, application: Application, status: GatewayStatus) -> None:
        source = source_of(application, secret=self._settings.has_source_tls)
        if source is not None:
            address = next(one.where for one in status.sources if one.name == source.name)
            self._input = StandardInput(source, address)
            self._stack.callback(self._input.stop)

    def _on_published(self, _news: News) -> None:
        self._gateway.worked()  # it served messages and published their outputs

    def _stop_engine(self) -> None:
        self._engine.stop(at_once=self._gateway.failure is not None)

    def _gateway_restarts(self) -> Sequence[Restart]:
        return self._gateway.restarts()

    def _failure(self) -> str | None:
        return self._failure_of_others() or self._engine.failure()

    def _failure_of_others(self) -> str | None:
        """What has failed, apart from the engine."""
        if self._deadline.has_given_up:
            return "a process did not respond to the stop"
        return self._gateway.failure or self._input.failure

    def _collect_logs(self, scratch: Path) -> None:
        """Log what the processes of this run log and print."""
        directory = scratch / "logs"
        directory.mkdir()
        output = UserLogs(None, relay, {}).output

        def log(line: str, sender: int) -> None:
            # anything but the gateway that sends events is a worker
            if not relay(line, any_part=sender in self._gateway_pids):
                output(line)

        channel = Channel(directory, log, output)
        self._stack.callback(channel.close)
        self._set_environment(channel.environment)

    def _set_environment(self, variables: Mapping[str, str]) -> None:
        """Set environment variables for this process and its children, until the stop."""
        self._environment.update(variables)
        for name, value in variables.items():
            os.environ[name] = value
            self._stack.callback(os.environ.pop, name, None)

    def _start_gateway(
        self, gateway: LocalGateway, reference: ApplicationRef, application: Application
    ) -> None:
        self._gateway = GatewayProcess(gateway.command(reference, application))
        self._gateway_pids = self._gateway.pids
        self._stack.callback(self._gateway.stop)
        self._gateway.start()
        self._client = GatewayClient(
            gateway.location, gone=lambda: self._gateway.failure is not None
        )
