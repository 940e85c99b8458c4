"""The processes of a real-time query, killed and poisoned, with a stand-in for Spark."""

from __future__ import annotations

import contextlib
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.realtime.harness import (
    RUN,
    GatewaySide,
    StandIn,
    Store,
    gateway_side,
    submit,
    wait_until_processed,
)
from tests.helpers import KILLING, wait_until
from wallaroo.engine.realtime.feed import Feed
from wallaroo.engine.realtime.frames import FrameSocket
from wallaroo.engine.realtime.messages import DRIVER, READER, Hello
from wallaroo.engine.realtime.process import JOB, Job, socket_of
from wallaroo.engine.spark.slots import slots_for
from wallaroo.gateway.chunks.pace import Resumes
from wallaroo.model.loader import ApplicationRef

PARTITIONS = 2


@pytest.fixture
def reference() -> ApplicationRef:
    return ApplicationRef(str(KILLING), ("--in", "127.0.0.1:0", "--out", "127.0.0.1:1"))


class Processes:
    """The processes of one query, and what moves frames between them."""

    def __init__(
        self, gateway: GatewaySide, reference: ApplicationRef, store: Store, attempt: int
    ) -> None:
        self.directory = gateway.path.with_name(f"query-{attempt}")
        self.directory.mkdir()
        checkpoint = gateway.path.with_name("checkpoint")
        checkpoint.mkdir(exist_ok=True)
        (checkpoint / "metadata").write_text(RUN)
        buckets = 8 * PARTITIONS
        job = Job(
            reference,
            str(gateway.path),
            gateway.claim,
            attempt,
            checkpoint,
            PARTITIONS,
            buckets,
            slots_for(buckets),
            frozenset(),
            5.0,
        )
        (self.directory / JOB).write_bytes(pickle.dumps(job))
        command = [sys.executable, "-m", "wallaroo.engine.realtime.process", str(self.directory)]
        roles = (READER, *range(PARTITIONS))
        self.processes = [subprocess.Popen([*command, str(role)]) for role in roles]
        hello = Hello(gateway.claim, attempt, DRIVER, PARTITIONS)
        self.feed = Feed(gateway.path, hello, lambda *_: None)
        java = [self._connected(role) for role in roles]
        self._java = java
        threading.Thread(target=StandIn(java[0], java[1:]).run, args=(store,), daemon=True).start()

    def kill(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGKILL)

    def close(self) -> None:
        self.feed.close()
        self.kill()
        for process in self.processes:
            process.wait()
        for connection in self._java:
            connection.close()

    def _connected(self, role: int) -> FrameSocket:
        path = socket_of(self.directory, role)
        wait_until(path.exists, f"the socket of process {role}")
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(path))
        return FrameSocket(connection)


@contextlib.contextmanager
def running(
    gateway: GatewaySide, reference: ApplicationRef, store: Store, attempt: int
) -> Iterator[Processes]:
    processes = Processes(gateway, reference, store, attempt)
    try:
        yield processes
    finally:
        processes.close()


def test_processes_that_are_killed_leave_nothing_undone(
    reference: ApplicationRef, tmp_path: Path
) -> None:
    application, store = reference.load(), Store()
    with gateway_side(tmp_path, application) as gateway:
        gateway.server._resumes = Resumes()
        with running(gateway, reference, store, 1) as first:
            submit(gateway, application, [("in", b"%d" % (n % 10)) for n in range(1_000)])
            wait_until(lambda: gateway.outbox.undelivered, "the first outputs")
            first.kill()
            submit(gateway, application, [("in", b"%d" % (n % 10)) for n in range(1_000)])
            wait_until(lambda: first.feed.failure is not None, "the end of the query")
        with running(gateway, reference, store, 2) as second:
            wait_until_processed(gateway, 2_000)
            second.feed.finish_epoch()
        (framed,) = gateway.outputs(application).values()
        outputs = [output[4:] for output in framed]
    assert store.commits == 1
    assert len(outputs) == 2_000
    for key in range(10):
        of_key = [output for output in outputs if output[:1] == b"%d" % key]
        assert of_key == [b"%d%d" % (key, n + 1) for n in range(200)]


def test_a_message_that_kills_its_process_becomes_a_dead_letter(
    reference: ApplicationRef, tmp_path: Path
) -> None:
    application, store = reference.load(), Store()
    with gateway_side(tmp_path, application) as gateway:
        gateway.server._resumes = Resumes()
        with running(gateway, reference, store, 1) as first:
            submit(gateway, application, [("in", b"a"), ("in", b"kill"), ("in", b"b")])
            wait_until(lambda: first.feed.failure is not None, "the end of the query")
        with running(gateway, reference, store, 2) as second:
            submit(gateway, application, [("in", b"a")])
            wait_until_processed(gateway, 4)
            second.feed.finish_epoch()
        (framed,) = gateway.outputs(application).values()
        outputs = [output[4:] for output in framed]
        assert gateway.outbox.counters()["letters"] == 1
    assert sorted(outputs) == [b"a1", b"a2", b"b1"]
