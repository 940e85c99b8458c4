"""A driver that starts beside another one takes over from it, and nothing is lost or repeated."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.helpers import free_address
from tests.spark.harness import APPS, PATIENCE_S, Receiver, ReportedRun, frame
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"


class Cluster:
    """A gateway, and drivers with names of their own, as pods have them."""

    def __init__(self, directory: Path, receiver: Receiver, stack: contextlib.ExitStack) -> None:
        self._stack, self.state = stack, directory / "state"
        token = directory / "token"
        token.write_text("a token that is long enough")
        self._shared = (
            "--in",
            "127.0.0.1:0",
            "--out",
            receiver.address,
            "--token-file",
            str(token),
        )
        self._door = free_address()
        options = ("--listen", self._door, "--chunks-port", "0")
        self.gateway = self._start("gateway", *options, "--state-dir", str(directory / "edge"))
        self.address = str(self.gateway.wait_for_event("ready", PATIENCE_S)["sources"][SOURCE])

    def driver(self, name: str, *options: str, app: Path = APPS / "word_count") -> BackgroundRun:
        place = ("--gateway", self._door, "--state-dir", str(self.state))
        spark = ("--master", "local[1]", "--partitions", "2", "--take-over")
        return self._start("driver", *place, *spark, *options, name=name, app=app)

    def _start(
        self, command: str, *options: str, name: str = "", app: Path = APPS / "word_count"
    ) -> BackgroundRun:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("POD_NAME", name)
            run = ReportedRun([command, str(app), *self._shared, *options])
        self._stack.push(run.__exit__)
        return run


class Lines:
    """Sends lines until it is told to stop, one after the other."""

    def __init__(self, address: str) -> None:
        self._address, self._stopping = address, threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Lines:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _send(self) -> None:
        host, port = self._address.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as connection:
            while not self._stopping.wait(0.002):
                connection.sendall(frame(b"one two"))
                self.sent += 1
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver("lines") as receiver:
        yield receiver


@pytest.fixture
def cluster(tmp_path: Path, receiver: Receiver) -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        yield Cluster(tmp_path, receiver, stack)


def assert_counted(messages: Sequence[bytes], lines: int) -> None:
    """Each word has been counted once for each of *lines*, in order."""
    for word in (b"one", b"two"):
        counts = [int(m.split(b" => ")[1]) for m in messages if m.startswith(word)]
        assert counts == [*range(1, lines + 1)]


def test_drivers_take_over_from_each_other_while_messages_stream(
    cluster: Cluster, receiver: Receiver
) -> None:
    last = cluster.driver("first")
    last.wait_for_event("ready", PATIENCE_S)
    with Lines(cluster.address) as lines:
        for name in ("second", "third"):
            known = len(receiver.messages)
            receiver.wait_for(known + 100)
            driver = cluster.driver(name)
            driver.wait_for_event("taken over", PATIENCE_S)
            assert driver.wait_for_event("warmed up", PATIENCE_S)
            assert last.wait_for_event("handed over", PATIENCE_S)
            driver.wait_for_event("ready", PATIENCE_S)
            receiver.wait_for(len(receiver.messages) + 100)
            assert last.process.poll() is None, "it waits until it is stopped"
            assert last.stop() == 0
            last = driver
    assert_counted(receiver.wait_for(2 * lines.sent), lines.sent)
    assert last.stop() == 0
    assert {file.name for file in cluster.state.iterdir()} == {
        "application.json",
        "checkpoint",
        "lock",
        "state-classes.json",
    }, "the warm-up leaves nothing"


def test_a_driver_that_is_stopped_goes_on_until_the_next_one_can_take_over(
    cluster: Cluster, receiver: Receiver
) -> None:
    first = cluster.driver("first", "--successor-patience", "300")
    first.wait_for_event("ready", PATIENCE_S)
    with Lines(cluster.address) as lines:
        second = cluster.driver("second")
        second.wait_for_event("waiting to take over", PATIENCE_S)
        first.process.send_signal(signal.SIGTERM)
        known = len(receiver.messages)
        second.wait_for_event("ready", PATIENCE_S)
        assert len(receiver.messages) > known
        assert first.wait() == 0
        assert [e["event"] for e in first.events if e["event"] == "handed over"]
    assert_counted(receiver.wait_for(2 * lines.sent), lines.sent)


def test_a_driver_that_has_handed_over_begins_again_if_the_other_one_goes(
    cluster: Cluster, receiver: Receiver
) -> None:
    first = cluster.driver("first")
    first.wait_for_event("ready", PATIENCE_S)
    second = cluster.driver("second")
    second.wait_for_event("ready", PATIENCE_S)
    assert second.stop() == 0
    assert first.wait(PATIENCE_S) == 1
    assert "the driver that took over has gone" in str(first.events[-1])
    cluster.driver("first").wait_for_event("ready", PATIENCE_S)
    with Lines(cluster.address) as lines:
        receiver.wait_for(100)
    assert_counted(receiver.wait_for(2 * lines.sent), lines.sent)


def test_a_driver_of_other_sources_waits_for_a_gateway_that_has_them(
    cluster: Cluster, tmp_path: Path, receiver: Receiver
) -> None:
    app = tmp_path / "other"
    app.mkdir()
    code = (APPS / "word_count" / "application.py").read_text()
    (app / "application.py").write_text(code.replace('"Split and Count"', '"Other Lines"'))
    driver = cluster.driver("other", app=app)
    waits = driver.wait_for_event("query waits", PATIENCE_S)
    assert "the gateway's application has other pipelines, sources or sinks" in waits["reason"]
    next_one = cluster.driver("right")
    next_one.wait_for_event("ready", PATIENCE_S)
    with Lines(cluster.address) as lines:
        receiver.wait_for(100)
    assert_counted(receiver.wait_for(2 * lines.sent), lines.sent)
