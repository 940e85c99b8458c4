"""Standard input as a source, and standard output as a sink: an application in one terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from tests.helpers import COUNTING, wait_until
from tests.spark.harness import PATIENCE_S, called, kill_gateway
from tests.terminal import Terminal

pytestmark = pytest.mark.spark

STREAMS = ("--in", "-", "--out", "-")
LINES = 20_000

WINDOWS = """
import wallaroo


class Total(wallaroo.Aggregation):
    def initial_accumulator(self):
        return [0]

    def update(self, number, total):
        total[0] += number

    def combine(self, one, other):
        return [one[0] + other[0]]

    def output(self, key, total):
        return total[0]


def application_setup(args):
    host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    source = wallaroo.TCPSourceConfig(host, port, int, framing="lines")
    windows = wallaroo.range_windows(wallaroo.seconds(2)).over(Total)
    pipeline = wallaroo.source("Numbers", source).key_by(all_in_one).to(windows)
    return wallaroo.build_application("Sums", pipeline.to_sink(wallaroo.PrintSinkConfig()))


@wallaroo.key_extractor
def all_in_one(number):
    return "all"
"""


def command(app: Path, state: Path, *options: str) -> list[str]:
    return [
        *(sys.executable, "-m", "wallaroo", "run", str(app), "--state-dir", str(state)),
        *("--ui", "127.0.0.1:0", *options),
    ]


def ended(app: Path, state: Path, text: bytes, *options: str) -> Sequence[str]:
    """Run *app* with *text* as its standard input; returns the lines that it has printed."""
    done = subprocess.run(
        command(app, state, *options),
        input=text,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


def test_a_pipe_gives_messages_and_takes_outputs_and_the_state_is_kept(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert ended(COUNTING, state, b"ada\nada\n", *STREAMS) == ["ada: 1: 1", "ada: 2: 2"]
    assert ended(COUNTING, state, b"ada", *STREAMS) == ["ada: 3: 3"]


def test_a_run_until_all_is_done_closes_its_windows_after_the_end_of_its_input(
    tmp_path: Path,
) -> None:
    app = tmp_path / "sums.py"
    app.write_text(WINDOWS)
    assert ended(app, tmp_path / "state", b"1\n2\n3\n", "--until-done", "--in", "-") == ["6"]


def test_lines_typed_at_a_terminal_are_answered_and_its_keys_end_the_run(tmp_path: Path) -> None:
    with Terminal(tmp_path, os.environ, PATIENCE_S) as terminal:
        for state, key in (("one", "^D"), ("two", "^C")):
            terminal.type(" ".join(command(COUNTING, tmp_path / state, *STREAMS)))
            terminal.wait_for(r"\[info +\] ready .*'Texts': 'standard input'")
            for number in (1, 2):
                terminal.type("ada")
                terminal.wait_for(rf"^ada: {number}: {number}$")
            terminal.type(key)
            terminal.wait_for(r"\[info +\] stopped .*delivered=2")


class Fed:
    """A run that is fed lines through a pipe; a context manager that kills what is left of it."""

    def __init__(
        self, state: Path, *options: str, app: Path = COUNTING, reads: bool = True
    ) -> None:
        self.process = subprocess.Popen(
            command(app, state, *options, *STREAMS),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.printed: list[bytes] = []
        self.told: list[bytes] = []
        self._threads = [self._following(self.process.stderr, self.told)]
        if reads:
            self._threads.append(self._following(self.process.stdout, self.printed))

    def __enter__(self) -> Fed:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join()

    def feed(self, lines: Sequence[bytes], *, end: bool = False) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(line + b"\n" for line in lines))
        self.process.stdin.flush()
        if end:
            self.process.stdin.close()

    def _following(self, stream: Any, into: list[bytes]) -> threading.Thread:
        def follow(stream: IO[bytes]) -> None:
            with stream:
                into.extend(stream)

        thread = threading.Thread(target=follow, args=(stream,), daemon=True)
        thread.start()
        return thread


def test_a_gateway_that_is_killed_loses_no_line_and_counts_none_twice(tmp_path: Path) -> None:
    """Neither if changed code was refused before, which reads them with another source."""
    app = Path(shutil.copy(COUNTING, tmp_path))
    lines = [b"%d" % (number % 100) for number in range(LINES)]
    with Fed(tmp_path / "state", "--reload", app=app) as fed:
        fed.feed(lines[:100])
        wait_until(lambda: fed.printed, "an output", PATIENCE_S)
        app.write_text(app.read_text().replace('new_pipeline("Texts"', 'new_pipeline("Others"'))
        wait_until(lambda: b"not reloaded" in b"".join(fed.told), "the refusal", PATIENCE_S)
        fed.feed(lines[100 : LINES // 2])
        wait_until(lambda: len(fed.printed) > 100, "the next output", PATIENCE_S)
        kill_gateway(fed)
        fed.feed(lines[LINES // 2 :], end=True)
        assert fed.process.wait(PATIENCE_S) == 0, b"".join(fed.told).decode()
    # what was printed when the gateway was killed may be printed again
    each = {tuple(line.split(b": ")[:2]) for line in fed.printed}
    assert each == {(b"%d" % n, b"%d" % (i + 1)) for n in range(100) for i in range(LINES // 100)}
    (refusal,) = (line for line in fed.told if b"not reloaded" in line)
    assert b"source 'Texts' reads standard input, and with this code source 'Others'" in refusal


def test_a_reader_that_leaves_ends_nothing(tmp_path: Path) -> None:
    with Fed(tmp_path / "state", reads=False) as fed:
        assert fed.process.stdout is not None
        fed.feed([b"ada"])
        assert fed.process.stdout.readline() == b"ada: 1: 1\n"
        fed.process.stdout.close()
        fed.feed([b"ada"] * 10, end=True)
        assert fed.process.wait(PATIENCE_S) == 0
    assert b"standard output has no reader" in b"".join(fed.told)


def test_standard_input_that_is_closed_is_told(tmp_path: Path) -> None:
    run = shlex.join(command(COUNTING, tmp_path / "state", *STREAMS))
    done = subprocess.run(["sh", "-c", f"{run} <&-"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "source 'Texts' reads standard input, which is closed" in done.stderr


def test_a_gateway_by_itself_refuses_a_source_of_standard_input(tmp_path: Path) -> None:
    state = tmp_path / "state"
    listening = ("--state-dir", state, "--listen", "127.0.0.1:0")
    done = called("gateway", COUNTING, *STREAMS, *listening)
    assert done.returncode == 2
    assert "source 'Texts' reads standard input, which is possible with `wallaroo run` alone" in (
        done.stderr
    )
