"""A gateway that dies and comes back: nothing is lost or doubled, and nobody has to notice."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.gateway.harness import U32, outputs
from tests.gateway.stand_in import StandIn, journal_of
from tests.helpers import PATIENCE_S, WORD_COUNT, wait_until
from tests.spark.harness import Receiver
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.consistency.agreement import disagreement
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.reading import Reading
from wallaroo.loading.loader import ApplicationRef
from wallaroo.run import gateway_process
from wallaroo.run.gateway_process import GatewayProcess, reserved_ports
from wallaroo.run.state.start_check import GatewayFiles
from wallaroo.system.restarts import Restarts
from wallaroo.wire.checkpoint_progress import CheckpointProgress


class Running:
    """A gateway of the word count in a process of its own, its client, and the receiver."""

    def __init__(self, directory: Path) -> None:
        self.receiver = Receiver("lines")
        arguments = ("--in", "127.0.0.1:0", "--out", self.receiver.address)
        application = ApplicationRef(str(WORD_COUNT), arguments).load()
        self._reserved = reserved_ports([*application.sources, *application.sinks])
        self.port, none = self._reserved.__enter__()
        self.directory = directory
        self.location = f"unix:{directory}/gateway.sock"
        self.command = [
            *(sys.executable, "-m", "wallaroo", "gateway", str(WORD_COUNT), *arguments),
            *(
                "--child",
                "--state-dir",
                str(directory),
                "--listen",
                self.location,
            ),
            *("--ports", str(self.port), "--ports", str(none)),
        ]
        self.process = GatewayProcess(self.command)
        self.process.start()
        self.client = GatewayClient(self.location, patience_s=PATIENCE_S)
        self.engine = StandIn(self.location)

    def signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """Kill the gateway, and wait for the next one."""
        starts = self.process.starts
        self.signal(signal.SIGKILL)
        wait_until(lambda: self.process.starts > starts, "the next gateway")

    def send(self, *payloads: bytes) -> None:
        """Send *payloads*, and wait until they are accepted."""
        (source,) = self.client.status().sources
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as connection:
            connection.sendall(b"".join(map(U32.frame, payloads)))
            count = source.accepted + len(payloads)
            assert self.client.wait_until_accepted(source.name, count, PATIENCE_S)

    def close(self) -> None:
        self.engine.close()
        self.process.stop()
        self._reserved.__exit__(None, None, None)
        self.receiver.__exit__()


@pytest.fixture
def running() -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as directory:  # short, as the name of a Unix socket must be
        made = Running(Path(directory))
        yield made
        made.close()


STARTING = """
import os, subprocess
import wallaroo

class Starting(wallaroo.MessageSource):
    def read(self, position):
        with open("made", "w") as note:
            note.write(str(subprocess.Popen(["sleep", "3600"]).pid))
        os.replace("made", "note")
        while True:
            yield None

def application_setup(args):
    source = wallaroo.source("in", wallaroo.SourceConfig(Starting(), bytes))
    sink = wallaroo.FileSinkConfig("out", wallaroo.encoder(bytes), framing="lines")
    return wallaroo.build_application("Starting", source.to_sink(sink))
"""


@pytest.mark.parametrize("end", ["stop", "kill", "parent", "both"])
def test_processes_that_a_custom_source_has_started_end_with_the_gateway(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("starting.py").write_text(STARTING)
    command = [sys.executable, "-m", "wallaroo", "gateway", "starting.py", "--child"]
    command += ["--state-dir", "state", "--listen", "unix:gateway.sock"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_until(Path("note").exists, "its process")
        started = psutil.Process(int(Path("note").read_text()))
        if end == "stop":
            process.terminate()
        if end in {"kill", "both"}:
            process.kill()
        if end in {"parent", "both"}:
            assert process.stdin is not None
            process.stdin.close()
        process.wait(PATIENCE_S)
        assert not psutil.wait_procs([started], PATIENCE_S)[1]
    finally:
        process.kill()
        process.communicate()


def in_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def test_a_killed_gateway_comes_back_with_its_port_and_what_it_had_accepted(
    running: Running,
) -> None:
    running.send(b"a", b"b")
    running.kill()
    (source,) = running.client.status().sources
    assert (source.where, source.accepted) == (f"127.0.0.1:{running.port}", 2)
    running.send(b"c")
    assert sum(chunk.messages for chunk in journal_of(running.directory)) == 3


def test_a_gateway_is_replaced_without_a_failure(running: Running) -> None:
    running.send(b"a")
    running.process.replace([*running.command, "--max-frame", "3"])
    assert running.process.failure is None
    assert running.client.status().sources[0].accepted == 1
    running.send(b"bcd")
    running.kill()  # the next one is of the same command
    with socket.create_connection(("127.0.0.1", running.port), PATIENCE_S) as connection:
        connection.sendall(U32.frame(b"efgh"))
        assert connection.recv(1) == b""  # too long for it


def test_a_gateway_that_has_just_died_is_replaced(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Restarts, "FIRST_S", 0.5)
    running.signal(signal.SIGKILL)
    running.process.replace(running.command)
    running.send(b"a")


@pytest.mark.parametrize("has_died", [False, True])
def test_a_replacement_that_does_not_start_leaves_the_gateway_from_before(
    running: Running, has_died: bool
) -> None:
    if has_died:
        running.signal(signal.SIGKILL)
    with pytest.raises(RuntimeFailure, match="does not start with the changed application"):
        running.process.replace(running.command[:-2])
    assert running.process.failure is None
    running.send(b"a")
    running.kill()
    running.send(b"b")


def test_outputs_that_no_gateway_has_published_are_published_by_the_next(running: Running) -> None:
    running.engine.publish(outputs(b"a\n"))
    log = running.directory / LOG
    wait_until(lambda: Reading(log).outbox.delivered_to(0) == 1, "the delivery")
    running.kill()
    running.engine.publish(outputs(b"b\n"))
    wait_until(lambda: not running.client.status().undelivered, "the delivery")
    assert running.receiver.wait_for(2) == [b"a\n", b"b\n"]


def test_a_call_that_the_killed_gateway_did_not_answer_is_answered_by_the_next(
    running: Running,
) -> None:
    running.signal(signal.SIGSTOP)
    answers: list[int] = []
    asking = in_thread(lambda: answers.append(running.client.claim("driver")))
    running.kill()
    asking.join(PATIENCE_S)
    assert answers == [1]


def test_what_was_published_is_no_backlog_of_the_next_gateway(running: Running) -> None:
    running.send(b"a", b"b")
    with contextlib.closing(StandIn(running.location, ticks=False)) as engine:
        engine.publish()
        running.kill()
        running.send(b"c")
        engine.publish()
    assert running.client.status().backlog == 0


def test_a_gateway_that_accepts_a_lost_journal_keeps_what_it_took_and_listens_again(
    running: Running,
) -> None:
    running.send(b"a", b"b")
    checkpoint = CheckpointProgress("run", 4, 7, "lost")
    assert disagreement(Path("checkpoint"), checkpoint, running.client.held()) is not None
    files = GatewayFiles(running.location, running.client.claim("driver"))
    files.accept(checkpoint)
    assert disagreement(Path("checkpoint"), checkpoint, running.client.held()) is None
    running.send(b"c")
    assert running.process.starts == 1  # the process is the same
    assert [(chunk.first, chunk.data) for chunk in journal_of(running.directory, 7)] == [
        *((7, U32.frame(b"a") + U32.frame(b"b")), (9, U32.frame(b"c"))),
    ]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("print('{\"sources\": []}'); raise SystemExit(7)", "it ended with exit code 7"),
        (
            "import os; first = not os.path.exists('up'); open('up', 'w').close(); "
            'print(\'{"sources": []}\' if first else \'{"error": "no such port"}\')',
            "no such port",
        ),
    ],
)
def test_a_gateway_that_fails_again_and_again_is_given_up_with_its_reason(
    program: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Restarts, "LONGEST_S", 0.01)
    process = GatewayProcess([sys.executable, "-c", program])
    process.start()
    wait_until(lambda: process.failure, "the end")
    assert process.failure == (
        f"the gateway failed 6 times in a row: {reason}; "
        "fix that, then start again with the same --state-dir"
    )
    process.stop()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL while it was starting: the sys"),
        ("import os; os.kill(os.getpid(), 15)", "killed by SIGTERM while it was starting: anoth"),
        (
            "raise SystemExit(3)",
            "ended with exit code 3 while it was starting: check the preceding log",
        ),
        ('print(\'{"error": "no disk"}\')', "^no disk$"),
    ],
)
def test_a_gateway_that_ends_while_it_starts_is_told_with_how_it_ended(
    program: str, said: str
) -> None:
    process = GatewayProcess([sys.executable, "-c", program])
    with pytest.raises(RuntimeFailure, match=said):
        process.start()
    process.stop()


def test_a_gateway_that_works_for_a_while_between_its_deaths_is_never_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Restarts, "LONGEST_S", 0.0)
    monkeypatch.setattr(gateway_process.GatewayProcess, "WORKS_S", 0.0)
    process = GatewayProcess([sys.executable, "-c", "print('{\"sources\": []}')"])
    process.start()
    wait_until(lambda: process.starts > 2 * Restarts.MOST, "many starts")
    assert process.failure is None
    process.stop()


def _has_started(process: GatewayProcess, times: int) -> bool:
    return process.starts == times


def test_a_gateway_that_has_worked_is_never_given_up_however_soon_it_dies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Restarts, "LONGEST_S", 0.0)
    program = "print('{\"sources\": []}', flush=True); input()"
    process = GatewayProcess([sys.executable, "-c", program])
    process.start()
    for starts in range(1, 2 * Restarts.MOST):
        wait_until(functools.partial(_has_started, process, starts), "the next start")
        process.worked()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
    assert process.failure is None
    process.stop()


def test_a_gateway_that_finds_damage_is_not_started_again_unless_it_may_skip_it(
    running: Running,
) -> None:
    running.send(b"a", b"b")
    running.send(b"c")
    directory = running.directory
    starts = running.process.starts
    (segment,) = (directory / LOG).glob("log-*")
    damaged = segment.read_bytes().replace(U32.frame(b"a"), U32.frame(b"?"))
    with segment.open("rb+") as file:
        file.write(damaged)
    running.signal(signal.SIGKILL)
    wait_until(lambda: running.process.failure is not None, "the end")
    assert running.process.starts == starts
    told = rf"{segment} is damaged: at byte \d+, record \d+ is not as written; restore"
    assert re.match(told, str(running.process.failure))
    refused = GatewayProcess(running.command)
    with pytest.raises(RuntimeFailure, match="or start once with --skip-damaged"):
        refused.start()
    skipping = GatewayProcess([*running.command, "--skip-damaged"])
    skipping.start()
    (source,) = running.client.status().sources
    assert source.accepted == 3  # those that are set aside count
    assert running.client.status().backlog == 3  # a reading of the clock is in their place
    skipping.stop()
