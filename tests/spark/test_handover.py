"""A driver that starts beside another one takes over from it, and nothing is lost or repeated."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.dashboard.viewer import Viewer
from tests.helpers import free_address, wait_until
from tests.spark.harness import APPS, PATIENCE_S, Receiver, ReportedRun, called, frame
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"


class Cluster:
    """A gateway and drivers, each with its own name, as if it ran in a pod."""

    def __init__(self, directory: Path, receiver: Receiver, stack: contextlib.ExitStack) -> None:
        self._stack, self.state = stack, directory / "state"
        self.token = directory / "token"
        self.token.write_text("a token that is long enough")
        ends = ("--in", "127.0.0.1:0", "--out", receiver.address)
        self._shared = (*ends, "--token-file", str(self.token))
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
    """Sends one line after another until the block ends."""

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
    ui = ("--ui", "127.0.0.1:0", "--ui-token-file", str(cluster.token))
    token = ("--dashboard-token-file", cluster.token)
    first = cluster.driver("first", *ui)
    first.wait_for_event("ready", PATIENCE_S)
    with Lines(cluster.address) as lines:
        receiver.wait_for(100)
        second = cluster.driver("second", *ui)
        assert not second.wait_for_event("taken over", PATIENCE_S)["paused"]
        assert second.wait_for_event("warmed up", PATIENCE_S)
        assert first.wait_for_event("handed over", PATIENCE_S)
        url = second.wait_for_event("ready", PATIENCE_S)["dashboard"]
        receiver.wait_for(len(receiver.messages) + 100)
        assert first.process.poll() is None, "it waits until it is stopped"
        assert first.stop() == 0

        bearer = {"Authorization": f"Bearer {cluster.token.read_text()}"}
        shown = Viewer(url).ask("/history?key=o", "POST", None, bearer)
        assert shown.text == "the gateway makes no histories: start it with --histories"

        assert called("pause", url, *token).stdout == "paused\n"
        third = cluster.driver("third", *ui, "--successor-patience", "300")
        assert third.wait_for_event("taken over", PATIENCE_S)["paused"]
        url = third.wait_for_event("ready", PATIENCE_S)["dashboard"]
        known, sent = len(receiver.messages), lines.sent
        wait_until(lambda: lines.sent > sent + 100, "some messages")
        assert len(receiver.messages) == known
        assert called("resume", url, *token).stdout == "resumed\n"

        fourth = cluster.driver("fourth")
        fourth.wait_for_event("waiting to take over", PATIENCE_S)
        third.process.send_signal(signal.SIGTERM)
        third.wait_for_event("waiting for a successor", PATIENCE_S)
        known = len(receiver.messages)
        fourth.wait_for_event("ready", PATIENCE_S)
        assert len(receiver.messages) > known, "it continued until the other one was ready"
        assert third.wait() == 0
        assert third.wait_for_event("handed over", PATIENCE_S)
    assert_counted(receiver.wait_for(2 * lines.sent), lines.sent)
    assert fourth.stop() == 0
    assert {file.name for file in cluster.state.iterdir()} == {
        "application.json",
        "checkpoint",
        "lock",
        "state-classes.json",
    }, "the warm-up leaves nothing"


def test_a_driver_that_has_handed_over_begins_again_if_the_other_one_goes(
    cluster: Cluster, receiver: Receiver
) -> None:
    first = cluster.driver("first")
    first.wait_for_event("ready", PATIENCE_S)
    second = cluster.driver("second")
    second.wait_for_event("ready", PATIENCE_S)
    assert second.stop() == 0
    first.wait_for_event("starting again", PATIENCE_S)
    wait_until(lambda: [e["event"] for e in first.events].count("ready") == 2, "its next start")
    with Lines(cluster.address) as lines:
        receiver.wait_for(100)
    assert_counted(receiver.wait_for(2 * lines.sent), lines.sent)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Word Count, with another name of its source."""
    app = tmp_path / "other"
    app.mkdir()
    code = (APPS / "word_count" / "application.py").read_text()
    (app / "application.py").write_text(code.replace('"Split and Count"', '"Other Lines"'))
    return app


def test_a_driver_that_does_not_fit_is_refused_or_waits_and_the_other_one_continues(
    cluster: Cluster, receiver: Receiver, tmp_path: Path, other: Path
) -> None:
    first = cluster.driver("first")
    first.wait_for_event("ready", PATIENCE_S)
    with Lines(cluster.address) as lines:
        receiver.wait_for(100)
        first.wait_for_event("published", PATIENCE_S)
        for options, reason in (
            (("--partitions", "4"), "has 2 partitions, not 4"),
            (("--state-dir", str(tmp_path / "elsewhere")), "copies made at the same time"),
        ):
            refused = cluster.driver("refused", *options)
            assert refused.wait(PATIENCE_S) == 2
            assert reason in str(refused.events)
        unlike = cluster.driver("unlike", app=other)
        waits = unlike.wait_for_event("waiting to take over", PATIENCE_S)
        assert "the gateway's application has other pipelines, sources or sinks" in waits["reason"]
        unlike.wait_for_event("ready to take over", PATIENCE_S)
        receiver.wait_for(len(receiver.messages) + 2_000)
        assert unlike.stop() == 0
    assert_counted(receiver.wait_for(2 * lines.sent), lines.sent)
    assert "handing over" not in [event["event"] for event in first.events]


def test_a_driver_of_other_sources_waits_for_a_gateway_that_has_them(
    cluster: Cluster, receiver: Receiver, other: Path
) -> None:
    driver = cluster.driver("other", app=other)
    waits = driver.wait_for_event("query waits", PATIENCE_S)
    assert "the gateway's application has other pipelines, sources or sinks" in waits["reason"]
    next_one = cluster.driver("right")
    next_one.wait_for_event("ready", PATIENCE_S)
    with Lines(cluster.address) as lines:
        receiver.wait_for(100)
    assert_counted(receiver.wait_for(2 * lines.sent), lines.sent)
