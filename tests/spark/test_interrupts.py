"""A run that is interrupted ends in good order, at whatever moment, and says so in a few events."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import processes_below, wait_until
from tests.run.reload.application import change, write
from tests.spark.harness import APPS, PATIENCE_S, Receiver, frame, run
from tests.spark.test_ends import MARK, processes_of
from wallaroo.run.background_run import BackgroundRun, Event

pytestmark = pytest.mark.spark

_EVENTS = 4
"""Events that an interrupted run may log after the signals: one more than any logs here."""
_INTERRUPTING = """\
import os
from pathlib import Path

INTERRUPTED = Path(__file__).with_name("interrupted")


class Total:
    def __getstate__(self):
        if INTERRUPTED.exists():
            pid = int(INTERRUPTED.read_text())
            INTERRUPTED.unlink()
            os.kill(pid, 15)
        return self.__dict__

"""
"""The beginning of a state class that ends a process while it is saved, once a test asks for it."""


@pytest.fixture
def application(tmp_path: Path) -> Path:
    folder = tmp_path / "counts"
    folder.mkdir()
    write(folder)
    change(folder, "class Total:\n", _INTERRUPTING)
    return folder


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """Children can be interrupted, even if the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_ctrl_c(process: subprocess.Popen[bytes]) -> None:
    """Interrupt *process* and those below it that a terminal interrupts with it."""
    group = os.getpgid(process.pid)
    for pid in [process.pid, *processes_below(process.pid)]:
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            if os.getpgid(pid) == group:
                os.kill(pid, signal.SIGINT)


@contextlib.contextmanager
def flow(address: str) -> Iterator[None]:
    """Send one key until the end of the block, or until the source is closed."""
    host, port = address.rsplit(":", 1)
    ends = threading.Event()

    def send() -> None:
        with (
            contextlib.suppress(ConnectionError),
            socket.create_connection((host, int(port))) as connection,
        ):
            while not ends.wait(0.002):
                connection.sendall(frame(b"a"))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def answers(running: BackgroundRun, *signals: str) -> list[Event]:
    """What *running* logs from the first signal on, up to its end; *signals* are logged."""
    events = running.events
    first = next(place for place, event in enumerate(events) if event["event"] == "signal")
    named = [event["signal"] for event in events[first:] if event["event"] == "signal"]
    assert named == [*signals]
    others = [event for event in events[first:] if event["event"] != "signal"]
    assert len(others) <= _EVENTS, others
    assert others[-1]["event"] == "stopped"
    assert not [event for event in events if event.get("level") in {None, "error"}]
    return others


def test_a_start_that_is_interrupted_ends_at_once(application: Path, tmp_path: Path) -> None:
    with Receiver("lines") as receiver:  # or else "receiver away" might be logged
        command = ["run", str(application), "--in", "127.0.0.1:0", "--out", receiver.address]
        command += ["--no-ui", "--state-dir", str(tmp_path / "state"), "--reload"]
        running = BackgroundRun(command)
        running.wait_for_event("lease acquired", PATIENCE_S)  # Java starts meanwhile
        press_ctrl_c(running.process)
        assert running.wait() == 0
    assert [event["event"] for event in answers(running, "SIGINT")] == ["stopped"]


def test_a_run_that_is_stopped_as_soon_as_it_is_ready(application: Path, tmp_path: Path) -> None:
    with (
        Receiver("lines") as receiver,
        run(application, receiver, tmp_path / "state", options=["--reload"]) as running,
    ):
        running.process.send_signal(signal.SIGTERM)
        assert running.wait() == 0
    assert [event["event"] for event in answers(running, "SIGTERM")] == ["stopping", "stopped"]


def test_ctrl_c_while_messages_flow_and_an_epoch_ends(
    application: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = "epoch_first_s=0,epoch_least_s=0,epoch_most_s=0"  # most of the time, one ends
    monkeypatch.setenv("WALLAROO_PACE", pace)
    with (
        Receiver("lines") as receiver,
        run(application, receiver, tmp_path / "state", options=["--reload"]) as running,
        flow(running.sources["Keys"]),
    ):
        receiver.wait_for(10)
        press_ctrl_c(running.process)
        assert running.wait() == 0
    stopping, stopped = answers(running, "SIGINT")
    assert stopping["event"] == "stopping"
    assert len(receiver.messages) == stopped["delivered"] == stopped["accepted"]["Keys"] >= 10


def demo_of_word_count() -> subprocess.Popen[bytes]:
    """`wallaroo demo word_count`, whose messages can be read."""
    return subprocess.Popen(
        [sys.executable, "-m", "wallaroo", "demo", APPS / "word_count"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize(
    ("line", "stop", "code"),
    [("starting Spark", signal.SIGINT, 130), ("warming up", signal.SIGTERM, 143)],
)
def test_a_demo_that_is_ended_leaves_nothing_behind(
    line: str, stop: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    with tempfile.TemporaryDirectory() as scratch:  # short, as the name of a socket must be
        monkeypatch.setenv("TMPDIR", scratch)
        demo = demo_of_word_count()
        with demo:
            assert demo.stderr is not None
            said = iter(demo.stderr.readline, b"")
            assert f"{line}\n".encode() in said
            if stop == signal.SIGINT:
                press_ctrl_c(demo)
            else:
                demo.send_signal(stop)
            rest = b"".join(said).decode()
            assert demo.wait(PATIENCE_S) == code
        assert rest == ("interrupted\n" if stop == signal.SIGINT else "")
        assert not list(Path(scratch).glob("wallaroo-demo-*"))
        wait_until(lambda: not processes_of(mark), "the end of all processes", PATIENCE_S)


def test_the_run_of_a_demo_that_is_killed_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    with tempfile.TemporaryDirectory() as scratch:
        monkeypatch.setenv("TMPDIR", scratch)
        demo = demo_of_word_count()
        with demo:
            assert demo.stderr is not None
            assert b"starting Spark\n" in iter(demo.stderr.readline, b"")
            wait_until(lambda: len(processes_of(mark)) > 1, "its run", PATIENCE_S)
            demo.kill()
        wait_until(lambda: not processes_of(mark), "the end of all processes", PATIENCE_S)
