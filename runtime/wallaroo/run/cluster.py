"""`wallaroo driver`: an application's query on a cluster, with an existing gateway."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import structlog

from wallaroo.api.addresses import Address
from wallaroo.engine.settings import EngineSettings
from wallaroo.engine.spark.kubernetes import requested_cores
from wallaroo.engine.spark.kubernetes import settings as settings_of_pods
from wallaroo.engine.spark.session import Launch
from wallaroo.errors import RuntimeFailure, UsageError, WallarooError
from wallaroo.gateway.explaining import Explaining
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.status import WAITING
from wallaroo.model.application import Application
from wallaroo.observability.health import HealthServer
from wallaroo.run.driver_status import HANDED_OVER, DriverStatus
from wallaroo.run.kubernetes.autoscaler import Autoscaler
from wallaroo.run.kubernetes.leftovers import mark, remove_leftovers
from wallaroo.run.kubernetes.permissions import check_permissions
from wallaroo.run.kubernetes.room import GatewayRoom
from wallaroo.run.kubernetes.worker_count import WorkerCount
from wallaroo.run.lease_renewal import LeaseRenewal, set_credentials
from wallaroo.run.lifecycle import CHECK_INTERVAL_S, Lifecycle
from wallaroo.run.settings import ClusterSettings
from wallaroo.run.state.directory import Fixed, StateDirectory
from wallaroo.run.state.owner import Claim
from wallaroo.run.state.start_check import GatewayFiles, agree
from wallaroo.run.summary import Summary
from wallaroo.run.taking_over import await_turn, check_agreement, check_fit, has_gone
from wallaroo.run.user_output import captured_user_output
from wallaroo.system.credentials import read_token
from wallaroo.system.object_store import is_stored
from wallaroo.system.pod import Pod
from wallaroo.wire.chunk_messages import News

_LAST_EPOCH_S = 20.0
"""Seconds that the end of the epoch may take after a stop signal; otherwise, the next start takes
what was published since the one before from the outbox."""
_ENDS_S = 0.02
"""Seconds between looks whether the epoch has ended: messages wait meanwhile."""
_ANNOUNCED_S = 15.0
"""Seconds after a stop signal for the pod that replaces this one to load the application."""
_YIELDS_S = 2.0
"""Seconds between handing over and the end of Spark, which may share the other driver's node."""
_GATEWAY_DIRECTORY = Path("/var/lib/wallaroo/gateway")
"""Directory of the log in the gateway's pod, as the chart mounts it."""
_TERMINATION_LOG = Path("/dev/termination-log")
"""File in which Kubernetes expects the reason for a container's end."""

log = structlog.get_logger("wallaroo")


class ClusterRun(Lifecycle):
    """Runs an application's query in a pod, with an existing gateway, until a stop signal.

    Args:
        settings: What to run.

    Raises:
        UsageError: The dashboard's token cannot be read.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        super().__init__(settings.dashboard)
        self._settings = settings
        self._worker_count: WorkerCount | None = None
        """Follows the requested number of workers, if it comes from a ConfigMap."""
        self._gateway_gone = threading.Event()
        """Set when the gateway stops responding after a stop signal."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Report the error to Kubernetes, then stop all parts."""
        if isinstance(error, WallarooError):
            with contextlib.suppress(OSError):
                _TERMINATION_LOG.write_text(str(error))
        super().__exit__(kind, error, trace)

    def _start(self) -> dict[str, Any]:
        settings = self._settings
        application = self._load(settings.engine.application)
        self._status = DriverStatus(application.name, settings.partitions)
        if settings.health is not None:
            self._serve_health(settings.health)
        pod = self._pod()
        workers = settings.engine.workers
        if settings.executors.count_from is not None:
            workers = self._read_worker_count(pod.namespace, settings.executors.count_from)
        environment = set_credentials(settings.gateway)
        location, patience_s = settings.gateway.location, settings.gateway.patience_s
        scratch = self._make_scratch()
        engine_settings = replace(
            settings.engine,
            workers=workers,
            everywhere=True,
            environment=environment,
            spark={**self._pod_settings(pod), **settings.engine.spark},
        )
        self._status.enter("waiting for the gateway")
        launched, lease = None, self._acquire_lease(location, pod, application)
        paused_since = None
        if lease is None:
            launched, lease = self._take_over(engine_settings, application, scratch)
            paused_since = GatewayClient(location, claim=lease).paused_since()
            log.info("taken over", paused=paused_since is not None)
        elif self._worker_count is not None:
            remove_leftovers(self._worker_count.api, pod.namespace, self._prefix(pod))
        files = GatewayFiles(location, lease, patience_s)
        self._state = state = self._open_state(application, files, scratch)
        log.info(
            "starting",
            application=application.name,
            state_dir=str(state.path),
            master=settings.engine.master,
            lease=lease,
            workers=workers,
            resumes=not state.is_new,
        )
        self._status.enter("starting Spark")
        self._summary = Summary(self._status.gateway)
        launched = launched or self._launch(engine_settings, state.layout, scratch)
        place, replaces = f"the gateway {location}", settings.accept_lost_journal
        self._run_engine(
            engine_settings,
            application,
            state,
            location,
            lease,
            launched,
            scratch,
            Claim(state, location, lease, place, replaces=replaces),
            paused_since,
        )
        self._stack.callback(self._engine.stop)
        self._status.engine, self._status.pause = self._engine, self._pause
        self._repeat(self._summary.report, Summary.EVERY_S, "summary")
        if self._engine.executors is not None:
            room = GatewayRoom(self._status.gateway_responds, self._engine.executors)
            self._repeat(room.look, GatewayRoom.EVERY_S, "gateway-room")
        if self._worker_count is not None:
            self._worker_count.start()
            self._stack.callback(self._worker_count.stop)
            self._start_autoscaler(self._worker_count, location, engine_settings.spark)
        explaining = Explaining.of(
            settings.engine.application, _GATEWAY_DIRECTORY, None, is_here=False
        )
        dashboard = self._serve_dashboard(application, location, lambda: explaining)
        self._status.enter("running")
        return {
            "application": application.name,
            "gateway": location,
            "workers": workers,
            **({} if dashboard is None else {"dashboard": dashboard.url}),
        }

    def _start_autoscaler(
        self, count: WorkerCount, location: str, spark: Mapping[str, str]
    ) -> None:
        client = GatewayClient(location, patience_s=0)
        self._status.autoscaler = autoscaler = Autoscaler(
            client.samples,
            self._engine,
            lambda: self._pause.since is not None,
            count,
            requested_cores(spark),
        )
        self._repeat(autoscaler.look, Autoscaler.EVERY_S, "autoscaler")

    def _repeat(self, act: Callable[[], None], every_s: float, name: str) -> None:
        """Call *act* regularly until the stop; in a thread, because the gateway may be slow."""
        stopping = threading.Event()

        def run() -> None:
            while not stopping.wait(every_s):
                act()

        threading.Thread(target=run, name=name, daemon=True).start()
        self._stack.callback(stopping.set)

    def _serve_health(self, address: Address) -> None:
        probes = {"/healthz": self._status.alive, "/readyz": self._status.ready}
        server = HealthServer(address, probes, self._status.to_json, self._status.metrics)
        self._stack.callback(server.close)

    def _acquire_lease(self, location: str, pod: Pod, application: Application) -> int | None:
        """Acquire the gateway's lease; returns the fencing token.

        Returns:
            It, or None if another driver holds the lease, and is to hand over.

        Raises:
            RuntimeFailure: The gateway is unavailable, or another driver holds the lease.
        """
        patience_s = self._settings.gateway.patience_s
        self._lease = LeaseRenewal(location, pod.name, application.wiring)
        self._stack.callback(self._lease.release)
        if self._settings.takes_over:
            lease = self._lease.acquire_or_wait(patience_s)
        else:
            lease = self._lease.acquire(patience_s)
        self._status.client = GatewayClient(location, patience_s=0)
        return lease

    def _take_over(
        self, settings: EngineSettings, application: Application, scratch: Path
    ) -> tuple[Launch, int]:
        """Start Spark and its executors, then wait until the other driver has handed over.

        Returns:
            Spark, as it starts, and the fencing token.

        Raises:
            WallarooError: The state does not fit, or Spark did not start.
        """
        self._status.enter(WAITING)
        place = self._settings.state_dir.resolve()
        with captured_user_output(application.name):
            check_fit(place, application, self._settings.partitions)
        if not self._settings.accept_lost_journal:
            gateway = self._settings.gateway
            check_agreement(place, GatewayClient(gateway.location, patience_s=gateway.patience_s))
        fixed = Fixed.new(application.name, self._settings.partitions)  # as the state has it
        layout = fixed.layout(place / "checkpoint", scratch)
        launched = self._launch(settings, layout, scratch)
        responds = self._status.gateway_responds
        lease = await_turn(launched, self._lease, settings, fixed.partitions, place, responds)
        return launched, lease

    def _open_state(
        self, application: Application, files: GatewayFiles, scratch: Path
    ) -> StateDirectory:
        settings = self._settings
        place = settings.state_dir
        directory = scratch if is_stored(place) else None  # the gateway's lease is the lock
        state = StateDirectory(place, application.name, settings.partitions, directory=directory)
        self._stack.callback(state.close)
        self._check_classes(state, application)
        state.check_partitions(settings.partitions)
        agree(state, files, accept_lost=settings.accept_lost_journal)
        return state

    def wait(self) -> bool:
        """Wait for a stop signal, or for a driver that takes over; then for the end of the epoch.

        Returns:
            Whether it is to start again, because the driver that took over has gone.

        Raises:
            RuntimeFailure: The query failed, or another driver has acquired the lease.
        """
        signalled = self._signals.received
        while not (signalled.wait(CHECK_INTERVAL_S) or self._has_ready_successor()):
            self._check()
        if signalled.is_set():
            threading.Thread(target=self._watch_gateway, name="gateway-watch", daemon=True).start()
            self._await_successor()
        if self._has_ready_successor():
            return self._hand_over()
        self._status.enter("stopping")
        self._end_epoch()
        return False

    def _check(self) -> None:
        """Supervise the query.

        Raises:
            RuntimeFailure: It failed, or another driver has acquired the lease.
        """
        failure = self._lease.lost or self._engine.failure()
        if failure is not None:
            self._status.fail(failure)
            raise RuntimeFailure(failure)

    def _has_ready_successor(self) -> bool:
        successor = self._lease.successor
        return successor is not None and successor.ready

    def _await_successor(self) -> None:
        """Go on after a stop signal, until the driver that replaces this one can take over."""
        started, patience_s = time.monotonic(), self._settings.successor_s
        if patience_s:
            self._status.enter("stopping: a successor is awaited")
            log.info("waiting for a successor", at_most_s=min(patience_s, _ANNOUNCED_S))
        while not (self._has_ready_successor() or self._gateway_gone.is_set()):
            waited_s = time.monotonic() - started
            is_announced = self._lease.successor is not None
            if waited_s >= (patience_s if is_announced else min(patience_s, _ANNOUNCED_S)):
                return
            self._check()
            time.sleep(CHECK_INTERVAL_S)

    def _end_epoch(self) -> None:
        """Let the epoch end, if it does so in time."""
        self._pause.close()
        self._engine.hold()
        ending = threading.Thread(target=self._finish_epoch, name="last-epoch", daemon=True)
        ending.start()
        deadline = time.monotonic() + _LAST_EPOCH_S
        while ending.is_alive() and time.monotonic() < deadline:
            if self._gateway_gone.is_set():
                break  # an uninstall stops the gateway, too: the epoch would not end
            ending.join(_ENDS_S)
        self._stopped = {"epoch": "not ended" if ending.is_alive() else "ended"}

    def _hand_over(self) -> bool:
        """Let the other driver go on, and do nothing until a stop signal.

        Returns:
            Whether to start again, because that driver has gone.
        """
        successor = self._lease.successor
        log.info("handing over", to=None if successor is None else successor.name)
        self._status.enter(HANDED_OVER)
        self._end_epoch()
        self._engine.end_query()
        self._state.close()
        self._lease.release(hands_over=True, paused_since=self._pause.since)
        log.info("handed over")
        self._signals.received.wait(_YIELDS_S)
        self._status.engine = self._status.pause = self._status.autoscaler = None
        self._stack.close()
        if self._settings.health is not None:
            self._serve_health(self._settings.health)
        return has_gone(self._settings.gateway.location, self._signals.received)

    def _watch_gateway(self) -> None:
        """Note when the gateway stops responding; in a thread, because calls may block."""
        while not self._gateway_gone.is_set():
            if not self._status.gateway_responds():
                self._gateway_gone.set()
            time.sleep(CHECK_INTERVAL_S)

    def _finish_epoch(self) -> None:
        with contextlib.suppress(Exception):  # the outbox has what it changed, as after a kill
            self._engine.finish_epoch()

    def _on_published(self, news: News) -> None:
        self._status.on_published(news)
        self._summary.on_published(news)
        if self._status.autoscaler is not None:
            self._status.autoscaler.on_published(news)

    def _on_worker_count(self, count: int) -> None:
        _, running = self._engine.workers()
        log.info("workers", wanted=count, running=running)
        if count > self._settings.partitions:
            log.warning(
                "more workers than partitions",
                workers=count,
                partitions=self._settings.partitions,
                reason="state computations run on as many workers as there are partitions",
            )
        self._engine.scale(count)

    def _pod(self) -> Pod:
        if self._settings.engine.master.startswith("k8s://"):
            return Pod.here()
        return Pod(os.environ.get("POD_NAME", socket.gethostname()), "", "")

    def _read_worker_count(self, namespace: str, name: str) -> int:
        try:
            from kubernetes import client, config
        except ImportError as error:
            msg = "--workers-from requires the package kubernetes: install wallaroo[kubernetes]"
            raise UsageError(msg) from error
        config.load_incluster_config()
        follow = WorkerCount(client.CoreV1Api(), namespace, name, self._on_worker_count)
        self._worker_count = follow
        count = follow.read()
        check_permissions(client.AuthorizationV1Api(), namespace)
        return count

    def _prefix(self, pod: Pod) -> str:
        return self._settings.executors.prefix or pod.name

    def _pod_settings(self, pod: Pod) -> dict[str, str]:
        """Spark settings for executors in pods, if the master is Kubernetes."""
        executors = self._settings.executors
        if not self._settings.engine.master.startswith("k8s://"):
            return {}
        if executors.image is None:
            msg = "--image is missing: executors on Kubernetes need an image"
            raise UsageError(msg)
        prefix = f"{self._prefix(pod)}-{mark()}"
        secret_file = executors.secret_file
        if secret_file is not None:
            read_token(secret_file)  # executors would fail to connect, one after the other
        return settings_of_pods(pod, executors.image, prefix, executors.template, secret_file)
