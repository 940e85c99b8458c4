"""Stop signals, of which the first breaks off a start, and what a stop leaves behind."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.helpers import PATIENCE_S, WORD_COUNT
from wallaroo.cli.gateway import command_line
from wallaroo.engine.realtime.pausing import Pause
from wallaroo.engine.settings import EngineSettings
from wallaroo.engine.spark.java import _pump
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway.internal_api.status import GatewayStatus, SinkStatus, SourceStatus
from wallaroo.loading.loader import ApplicationRef
from wallaroo.run import stopping
from wallaroo.run.background_run import BackgroundRun
from wallaroo.run.local import LocalRun
from wallaroo.run.settings import LocalSettings
from wallaroo.run.stopping import StartInterrupted, StopDeadline, StopSignals

STOPS = (signal.SIGINT, signal.SIGTERM)
_TIMEOUT_S = 60.0
ENGINE = EngineSettings(ApplicationRef("app"), "local[1]")


@pytest.fixture(autouse=True)
def _handlers_as_before() -> Iterator[None]:
    before = {stop: signal.getsignal(stop) for stop in (*STOPS, signal.SIGALRM)}
    yield
    for stop, handler in before.items():
        signal.signal(stop, handler)


@pytest.mark.parametrize("stop", STOPS)
def test_a_signal_breaks_off_a_start(stop: signal.Signals) -> None:
    signals = StopSignals()
    with pytest.raises(StartInterrupted), signals.during_start():
        signal.raise_signal(stop)
    assert signals.received.is_set()


def test_a_start_that_has_not_heard_of_the_signal_is_broken_off_again() -> None:
    signals = StopSignals()

    def start() -> None:
        with signals.during_start():
            with contextlib.suppress(BaseException):  # as Python's own callbacks do
                signal.raise_signal(signal.SIGTERM)
            threading.Event().wait(_TIMEOUT_S)

    with pytest.raises(StartInterrupted):
        start()


@pytest.mark.parametrize("stop", STOPS)
def test_a_signal_behind_the_start_is_noted_alone(stop: signal.Signals) -> None:
    signals = StopSignals()
    with signals.during_start():
        pass
    signal.raise_signal(stop)
    assert signals.received.is_set()


def test_signals_do_what_they_did_once_a_run_has_ended() -> None:
    before = [signal.getsignal(number) for number in (*STOPS, signal.SIGALRM)]
    signals = StopSignals()
    with signals.during_start():
        signals.handle()
    signals.restore()
    assert [signal.getsignal(number) for number in (*STOPS, signal.SIGALRM)] == before


STATUS = GatewayStatus(
    sources=(),
    sinks=(SinkStatus("Results", "nowhere:1", "Connection refused"),),
    connections=0,
    backlog=0,
    backlog_bytes=0,
    waited_s=0.0,
    undelivered=0,
    waits_for_time=False,
    published=7,
    delivered=4,
    set_aside=0,
    unknown_key=0,
    late=6,
)


def drained(
    status: GatewayStatus, *, paused: bool = False, failure: str | None = None
) -> tuple[bool, list[Any]]:
    """Whether a run whose gateway has *status* drains at once; what it logs, to its end."""
    settings = LocalSettings(engine=ENGINE, drain_timeout_s=0.0)
    with capture_logs() as logged, LocalRun(settings, command_line) as runner:
        runner._gateway = SimpleNamespace(starts=1, failure=None)  # type: ignore[assignment]
        client = SimpleNamespace(stop_accepting=lambda: None, status=lambda: status)
        runner._client = client  # type: ignore[assignment]
        engine: Any = SimpleNamespace(
            failure=lambda: failure, finish_epoch=lambda _timeout_s: None, hold=lambda: None
        )
        runner._engine, runner._pause = engine, Pause(engine)
        if paused:
            runner._pause.pause("a test")
        runner._state_dir = Path("state")
        runner._stack.callback(logged.append, {"event": "parts end"})
        done = runner.drain()
    return done, logged


def test_a_stop_with_nothing_left_is_done() -> None:
    done, logged = drained(STATUS)
    assert done
    assert [event["event"] for event in logged] == ["stopping", "parts end", "stopped"]


def waiting(messages: int, undelivered: int = 0) -> GatewayStatus:
    source = SourceStatus("Votes", "127.0.0.1:7010", accepted=messages, backlog=messages)
    return replace(STATUS, sources=(source,), backlog=messages, undelivered=undelivered)


def test_a_stop_that_takes_too_long_warns_of_what_is_left_and_is_not_done() -> None:
    done, logged = drained(waiting(2, undelivered=3))
    assert not done
    warning = logged[1]
    assert warning["log_level"] == "warning"
    assert warning["reason"] == "the --drain-timeout of 0 s has expired"
    assert (warning["not_processed"], warning["not_delivered"]) == (2, 3)
    assert warning["receivers_away"] == {"Results": "Connection refused"}
    assert warning["kept_in"] == "state"
    assert "start again with the same --state-dir" in warning["advice"]
    assert logged[-1]["event"] == "stopped"
    assert logged[-1]["kept_for_next_start"] == 5
    assert logged[-1]["late"] == STATUS.late


def test_a_stop_of_a_run_that_cannot_read_its_state_ends_with_the_reason() -> None:
    with pytest.raises(RuntimeFailure, match="bucket 3 is damaged"):
        drained(waiting(2), failure="bucket 3 is damaged")


def test_a_paused_run_stops_without_processing_what_waits() -> None:
    done, logged = drained(waiting(2), paused=True)
    assert not done
    paused, stopping, warning, *_, stopped = logged
    assert (paused["event"], stopping["event"]) == ("paused", "stopping")
    assert warning["reason"] == "the run is paused"
    assert (warning["not_processed"], warning["not_delivered"]) == (2, 0)
    assert stopped["kept_for_next_start"] == 2


def test_a_paused_run_with_nothing_left_stops_as_any_other() -> None:
    done, logged = drained(STATUS, paused=True)
    assert done
    assert [event["event"] for event in logged[1:]] == ["stopping", "parts end", "stopped"]


def test_what_a_window_that_closes_during_the_stop_sends_is_waited_for_and_counted() -> None:
    said = [
        STATUS,
        replace(STATUS, published=8, undelivered=1),  # one closed in the last chunk
        replace(STATUS, published=8, delivered=5, backlog=1),  # another is to close
    ]
    done: list[str] = []
    engine: Any = SimpleNamespace(
        failure=lambda: None,
        hold=lambda: done.append("hold"),
        finish_epoch=lambda _timeout_s: done.append("finish"),
        release=lambda: done.append("release"),
    )
    settings = LocalSettings(engine=ENGINE, drain_timeout_s=_TIMEOUT_S)
    with capture_logs() as logged, LocalRun(settings, command_line) as runner:
        runner._gateway = SimpleNamespace(starts=1, failure=None)  # type: ignore[assignment]
        client = SimpleNamespace(
            stop_accepting=lambda: None, status=lambda: said.pop(0) if len(said) > 1 else said[0]
        )
        runner._client = client  # type: ignore[assignment]
        runner._engine, runner._pause = engine, Pause(engine)
        assert runner.drain()
    assert done == ["hold", "finish", "release", "hold", "finish"]
    stopped = logged[-1]
    assert (stopped["event"], stopped["delivered"]) == ("stopped", 5)
    assert stopped["kept_for_next_start"] == 0


def test_java_that_was_told_to_end_complains_unheard() -> None:
    printed = b"ERROR one\n"
    event = b'{"part": "spark", "event": "x", "level": "info"}\n'
    heard: list[str] = []
    ending = threading.Event()
    _pump(io.BytesIO(printed), heard.append, ending)
    ending.set()
    _pump(io.BytesIO(printed + event), heard.append, ending)
    assert heard == ["ERROR one", event.decode().rstrip()]


def run_on(java: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of a run whose Java is a script that does *java*."""
    program = directory / "bin" / "java"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\ncase $1 in -version) echo 'version \"17\"' >&2;; *) {java};; esac\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(directory))
    addresses = ("--in", "127.0.0.1:0", "--out", "127.0.0.1:1")
    return ["run", str(WORD_COUNT), *addresses, "--no-ui", "--state-dir", str(directory / "state")]


@pytest.mark.parametrize("stop", STOPS)
def test_a_run_that_waits_for_java_stops_at_once_and_in_good_order(
    stop: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = run_on("exec sleep 1000", tmp_path, monkeypatch)
    with tempfile.TemporaryDirectory() as scratch:  # short, as the name of a socket must be
        monkeypatch.setenv("TMPDIR", scratch)
        running = BackgroundRun(arguments)
        running.wait_for_event("lease acquired", _TIMEOUT_S)
        os.kill(running.process.pid, stop)
        assert running.wait(_TIMEOUT_S) == 0  # 1 if it had waited for Java
        assert running.events[-1]["event"] == "stopped"
        assert not any(event.get("level") == "error" for event in running.events)
        assert list(Path(scratch).iterdir()) == []


def test_a_directory_whose_name_is_too_long_for_sockets_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with (
        pytest.raises(UsageError, match="set the environment variable TMPDIR to a shorter one"),
        LocalRun(LocalSettings(engine=ENGINE), command_line) as running,
    ):
        running.start()


@pytest.mark.parametrize(
    ("java", "said"),
    [
        ("kill -9 $$", "Spark's Java was killed by SIGKILL while it was starting: the system does"),
        (
            "exit 4",
            "Spark's Java ended with exit code 4 while it was starting: check the preceding",
        ),
        ("exit 3", "Spark's Java ran out of memory while it was starting (-Xmx1g): give it more"),
    ],
)
def test_a_run_whose_java_ends_while_it_starts_tells_how(
    java: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-m", "wallaroo", *run_on(java, tmp_path, monkeypatch)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(("signals", "limit_s"), [(1, 0.3), (2, 600.0)])
def test_a_stop_that_takes_too_long_is_given_up(
    monkeypatch: pytest.MonkeyPatch, signals: int, limit_s: float
) -> None:
    monkeypatch.setattr(stopping, "_AFTER_ANOTHER_S", 0.3)
    monkeypatch.setattr(stopping, "_END_S", 0.1)
    given, left, codes = StopSignals(), threading.Event(), list[int]()
    order: list[str] = []

    def leave(code: int) -> None:
        codes.append(code)
        left.set()

    with StopDeadline(given, limit_s, lambda: order.append("killed"), leave):
        for _ in range(signals):
            given._on_signal(signal.SIGTERM, None)
        assert left.wait(PATIENCE_S)
    assert (order, codes) == (["killed"], [1])


def test_a_stop_in_time_and_a_run_without_a_signal_are_left_alone() -> None:
    def never(*_arguments: object) -> None:
        pytest.fail("it was in time")

    with StopDeadline(StopSignals(), 0.0, never, never):
        pass
    given = StopSignals()
    with StopDeadline(given, 600.0, never, never):
        given._on_signal(signal.SIGTERM, None)
