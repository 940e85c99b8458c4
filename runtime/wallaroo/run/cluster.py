"""The parts of a driver on a cluster, in good order: claim, state, Spark, scaling, probes."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import structlog

from wallaroo.api.addresses import Address
from wallaroo.dataflow.program import Program
from wallaroo.engine.base import Batch
from wallaroo.engine.metrics import TimedBatch
from wallaroo.engine.registry import engine
from wallaroo.errors import RuntimeFailure, UsageError, WallarooError
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.connector import Connector
from wallaroo.observability.health import HealthServer
from wallaroo.run.batch_summary import BatchSummary
from wallaroo.run.driver_status import DriverStatus
from wallaroo.run.kubernetes.permissions import check_rights
from wallaroo.run.kubernetes.worker_count import WorkerCount
from wallaroo.run.lease import LeaseRenewal, set_credentials
from wallaroo.run.lifecycle import CHECK_INTERVAL_S, Lifecycle
from wallaroo.run.settings import ClusterSettings
from wallaroo.run.state.agreement import GatewayFiles, agree
from wallaroo.run.state.directory import StateDirectory
from wallaroo.system.pod import Pod

_SURPLUS_AFTER_S = 10.0
"""Executors leave at the end of a batch; where none ends for so long, they leave now."""
_LAST_BATCH_S = 20.0
"""Time for the batch under way to end at a stop, before it is will be reprocessed."""
_TERMINATION_LOG = Path("/dev/termination-log")
"""Where Kubernetes looks for why a container ended."""

log = structlog.get_logger("wallaroo")


class ClusterRun(Lifecycle):
    """Runs an application's query in a pod, with an existing gateway, until a stop signal.

    Args:
        settings: What to run.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        super().__init__(settings.dashboard)
        self._settings = settings
        self._surplus_due: float | None = None
        self._wanted: WorkerCount | None = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the error to Kubernetes, then stop all parts."""
        if isinstance(error, WallarooError):
            with contextlib.suppress(OSError):
                _TERMINATION_LOG.write_text(str(error))
        super().__exit__(kind, error, trace)

    def _start(self) -> None:
        settings = self._settings
        application = self._load(settings.engine.application)
        self._status = DriverStatus(application.name, settings.partitions)
        if settings.health is not None:
            self._serve_health(settings.health)
        pod = self._pod()
        workers = settings.engine.workers
        if settings.executors.count_from is not None:
            workers = self._read_wanted(pod.namespace, settings.executors.count_from)
        environment = set_credentials(settings.gateway)
        location, patience_s = settings.gateway.location, settings.gateway.patience_s
        self._claiming = LeaseRenewal(location, pod.name)
        self._status.say("waiting for the gateway")
        claim = self._claiming.claim(patience_s)
        self._stack.callback(self._claiming.release)
        self._status.client = GatewayClient(location, patience_s=0)
        state = StateDirectory(settings.state_dir, application.name, settings.partitions)
        self._stack.callback(state.close)
        self._check_classes(state, application)
        state.check_partitions(settings.partitions)
        files = GatewayFiles(location, claim.number, patience_s)
        agree(state, files, accept_lost=settings.accept_lost_journal)
        scratch = self._make_scratch()
        log.info(
            "starting",
            application=application.name,
            state_dir=str(state.path),
            master=settings.engine.master,
            claim=claim.number,
            workers=workers,
            resumes=not state.is_new,
        )
        self._status.say("starting Spark")
        connector = Connector(location, claim.number, patience_s)
        program = Program(application, state.fixed.buckets)
        engine_settings = replace(
            settings.engine,
            workers=workers,
            everywhere=True,
            environment=environment,
            spark={**self._pods(pod, claim.number), **settings.engine.spark},
        )
        self._summary = BatchSummary(self._timed_batches, self._status.gateway)
        launched = self._launch(engine_settings, state, scratch)
        self._engine = engine().start(
            engine_settings, program, state.layout, connector, launched, scratch, self._on_batch
        )
        self._stack.callback(self._engine.stop)
        self._status.engine = self._engine
        self._summary.start()
        self._stack.callback(self._summary.stop)
        if self._wanted is not None:
            self._wanted.start()
            self._stack.callback(self._wanted.stop)
        dashboard = self._serve_dashboard(application, location)
        self._status.say("running")
        log.info(
            "ready",
            application=application.name,
            gateway=location,
            workers=workers,
            **({} if dashboard is None else {"dashboard": dashboard.url}),
        )

    def _serve_health(self, address: Address) -> None:
        probes = {"/healthz": self._status.alive, "/readyz": self._status.ready}
        server = HealthServer(address, probes, self._status.to_json, self._status.metrics)
        self._stack.callback(server.close)

    def wait(self) -> None:
        """Wait for a stop signal, then for the end of the batch under way.

        Raises:
            RuntimeFailure: The query failed, or another driver has claimed the gateway.
        """
        while not self._signals.came.wait(CHECK_INTERVAL_S):
            failure = self._claiming.lost or self._engine.failure()
            if failure is not None:
                self._status.fail(failure)
                raise RuntimeFailure(failure)
            if self._surplus_due is not None and time.monotonic() > self._surplus_due:
                self._remove_surplus()
        self._status.say("stopping")
        self._engine.hold()
        ending = threading.Thread(target=self._finish_batch, name="last-batch", daemon=True)
        ending.start()
        gone = threading.Event()
        threading.Thread(target=self._look_for_gateway, args=(gone,), daemon=True).start()
        give_up = time.monotonic() + _LAST_BATCH_S
        while ending.is_alive() and time.monotonic() < give_up:
            if gone.is_set() and self._engine.waits():
                break  # at an uninstall the gateway goes, too: nobody tells whether messages wait
            ending.join(CHECK_INTERVAL_S)
        done_over = ending.is_alive() and not self._engine.waits()
        self._stopped = {"batch": "will be reprocessed" if done_over else "ended"}

    def _look_for_gateway(self, gone: threading.Event) -> None:
        """Set *gone* once the gateway does not answer; in a thread, for that may take a while."""
        while not gone.is_set():
            if not self._status.gateway_answers():
                gone.set()
            time.sleep(CHECK_INTERVAL_S)

    def _finish_batch(self) -> None:
        with contextlib.suppress(Exception):  # what has failed is done over, as after a kill
            self._engine.finish_batch()

    def _on_batch(self, batch: Batch) -> None:
        self._status.on_batch(batch)
        self._summary.on_batch(batch)
        if self._surplus_due is not None:
            self._remove_surplus()

    def _timed_batches(self) -> Sequence[TimedBatch]:
        return self._engine.figures.batches()

    def _on_wanted(self, number: int) -> None:
        _, running = self._engine.workers()
        log.info("workers", wanted=number, running=running)
        if number > self._settings.partitions:
            log.warning(
                "more workers than partitions",
                workers=number,
                partitions=self._settings.partitions,
                reason="state computations run on as many workers as there are partitions",
            )
        self._engine.scale(number)
        self._surplus_due = time.monotonic() + _SURPLUS_AFTER_S

    def _remove_surplus(self) -> None:
        self._surplus_due = None
        self._engine.remove_surplus()

    def _pod(self) -> Pod:
        if self._settings.engine.master.startswith("k8s://"):
            return Pod.here()
        return Pod(socket.gethostname(), "", "")

    def _read_wanted(self, namespace: str, name: str) -> int:
        try:
            from kubernetes import client, config
        except ImportError as error:
            msg = "--workers-from needs the Python package kubernetes: install wallaroo[kubernetes]"
            raise UsageError(msg) from error
        config.load_incluster_config()
        self._wanted = WorkerCount(client.CoreV1Api(), namespace, name, self._on_wanted)
        number = self._wanted.read()
        check_rights(client.AuthorizationV1Api(), namespace)
        return number

    def _pods(self, pod: Pod, claim: int) -> dict[str, str]:
        """Settings with which workers are pods, on Kubernetes."""
        executors = self._settings.executors
        if not self._settings.engine.master.startswith("k8s://"):
            return {}
        if executors.image is None:
            msg = "--image is missing: executors are to run in the driver's image"
            raise UsageError(msg)
        prefix = f"{executors.prefix or pod.name}-{claim}"
        token_file = self._settings.gateway.token_file
        return engine().on_kubernetes(pod, executors.image, prefix, executors.template, token_file)
