"""`wallaroo driver`: an application's query on a cluster, with an existing gateway."""

from __future__ import annotations

import contextlib
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
from wallaroo.engine.spark.kubernetes import requested_cores
from wallaroo.engine.spark.kubernetes import settings as settings_of_pods
from wallaroo.errors import RuntimeFailure, UsageError, WallarooError
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.model.application import Application
from wallaroo.observability.health import HealthServer
from wallaroo.run.driver_status import DriverStatus
from wallaroo.run.kubernetes.autoscaler import Autoscaler
from wallaroo.run.kubernetes.leftovers import remove_leftovers
from wallaroo.run.kubernetes.permissions import check_permissions
from wallaroo.run.kubernetes.room import GatewayRoom
from wallaroo.run.kubernetes.worker_count import WorkerCount
from wallaroo.run.lease_renewal import LeaseRenewal, set_credentials
from wallaroo.run.lifecycle import CHECK_INTERVAL_S, Lifecycle
from wallaroo.run.settings import ClusterSettings
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.state.owner import Claim
from wallaroo.run.state.start_check import GatewayFiles, agree
from wallaroo.run.summary import Summary
from wallaroo.system.credentials import read_token
from wallaroo.system.object_store import is_stored
from wallaroo.system.pod import Pod
from wallaroo.wire.chunk_messages import News

_LAST_EPOCH_S = 20.0
"""Seconds that the end of the epoch may take after a stop signal; otherwise, the next start takes
what was published since the one before from the outbox."""
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
        self._status.enter("waiting for the gateway")
        lease = self._acquire_lease(location, pod)
        if self._worker_count is not None:
            remove_leftovers(self._worker_count.api, pod.namespace, self._prefix(pod))
        scratch = self._make_scratch()
        files = GatewayFiles(location, lease, patience_s)
        state = self._open_state(application, files, scratch)
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
        engine_settings = replace(
            settings.engine,
            workers=workers,
            everywhere=True,
            environment=environment,
            spark={**self._pod_settings(pod, lease), **settings.engine.spark},
        )
        self._summary = Summary(self._status.gateway)
        launched = self._launch(engine_settings, state, scratch)
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
        dashboard = self._serve_dashboard(application, location)
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

    def _acquire_lease(self, location: str, pod: Pod) -> int:
        """Acquire the gateway's lease; returns the fencing token.

        Raises:
            RuntimeFailure: The gateway is unavailable, or another driver holds the lease.
        """
        self._lease = LeaseRenewal(location, pod.name)
        lease = self._lease.acquire(self._settings.gateway.patience_s)
        self._stack.callback(self._lease.release)
        self._status.client = GatewayClient(location, patience_s=0)
        return lease

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

    def wait(self) -> None:
        """Wait for a stop signal, then for the end of the epoch.

        Raises:
            RuntimeFailure: The query failed, or another driver has acquired the lease.
        """
        while not self._signals.received.wait(CHECK_INTERVAL_S):
            failure = self._lease.lost or self._engine.failure()
            if failure is not None:
                self._status.fail(failure)
                raise RuntimeFailure(failure)
        self._status.enter("stopping")
        self._pause.close()
        self._engine.hold()
        ending = threading.Thread(target=self._finish_epoch, name="last-epoch", daemon=True)
        ending.start()
        gateway_gone = threading.Event()
        threading.Thread(
            target=self._watch_gateway, args=(gateway_gone,), name="gateway-watch", daemon=True
        ).start()
        deadline = time.monotonic() + _LAST_EPOCH_S
        while ending.is_alive() and time.monotonic() < deadline:
            if gateway_gone.is_set():
                break  # an uninstall stops the gateway, too: the epoch would not end
            ending.join(CHECK_INTERVAL_S)
        self._stopped = {"epoch": "not ended" if ending.is_alive() else "ended"}

    def _watch_gateway(self, gone: threading.Event) -> None:
        """Set *gone* when the gateway stops responding; in a thread, because calls may block."""
        while not gone.is_set():
            if not self._status.gateway_responds():
                gone.set()
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
        return Pod(socket.gethostname(), "", "")

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

    def _pod_settings(self, pod: Pod, lease: int) -> dict[str, str]:
        """Spark settings for executors in pods, if the master is Kubernetes."""
        executors = self._settings.executors
        if not self._settings.engine.master.startswith("k8s://"):
            return {}
        if executors.image is None:
            msg = "--image is missing: executors on Kubernetes need an image"
            raise UsageError(msg)
        prefix = f"{self._prefix(pod)}-{lease}"
        secret_file = executors.secret_file
        if secret_file is not None:
            read_token(secret_file)  # executors would fail to connect, one after the other
        return settings_of_pods(pod, executors.image, prefix, executors.template, secret_file)
