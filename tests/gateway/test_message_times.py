"""Times of messages: what blocks or kills the process that finds them does not stop a source."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.connectors.child_gateway import child_gateway
from tests.gateway.harness import U32
from tests.gateway.stand_in import StandIn, journal_of
from tests.helpers import PATIENCE_S, processes_below, wait_until
from wallaroo.cli.main import main
from wallaroo.gateway import message_times
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.model import order
from wallaroo.model.order import AHEAD_BYTES, AHEAD_MESSAGES, timed

APP = """
import os
import signal
from datetime import datetime

import wallaroo
from tests.model.test_order import BY_EVENT

def decode(line):
    match line:
        case b"hang":
            while True:
                pass
        case b"exit":
            os._exit(0)
        case b"kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case b"fork":
            os.fork()
        case b"close":
            os.closerange(3, 100)
        case b"interrupt":
            raise KeyboardInterrupt
        case b"fill":
            return 1, bytearray(1 << 50)
    return int(line)

def time_of(number):
    return number

def naive(number):
    return datetime.fromtimestamp(number)

def missing(number):
    return {}[number]

def application_setup(args):
    streams = []
    for name in ("north", "south"):
        lines = wallaroo.FileSourceConfig(name, decode, "lines", time=globals()[args[0]])
        streams.append(wallaroo.source(name, lines).key_by(lambda number: 0))
    sink = wallaroo.FileSinkConfig("out.txt", wallaroo.encoder(str), framing="lines")
    both = streams[0].merge(streams[1])
    return wallaroo.build_application("times", both.to(BY_EVENT).to_sink(sink))
"""
POISON = ("hang", "exit", "kill", "fork", "interrupt", "fill")


@contextlib.contextmanager
def gateway(north: str, south: str, function: str) -> Iterator[tuple[Path, GatewayClient, int]]:
    with tempfile.TemporaryDirectory() as name, StandIn.at(name):
        directory = Path(name)  # short, as the name of a Unix socket must be
        (directory / "app.py").write_text(APP)
        for file, lines in (("north", north), ("south", south)):
            (directory / file).write_text("".join(f"{line}\n" for line in lines.split()))
        with child_gateway(directory, function, options=("--function-timeout", "1")) as (
            client,
            process,
        ):
            for file, lines in (("north", north), ("south", south)):
                assert client.wait_until_accepted(file, len(lines.split()), PATIENCE_S)
            client.stop_accepting()
            yield directory, client, process.pid


def accepted(directory: Path) -> list[str]:
    blocks = journal_of(directory / "state")
    return [payload.decode() for block in blocks for payload in U32.split(block.data)]


def warnings(directory: Path) -> list[dict[str, Any]]:
    events = map(json.loads, (directory / "log").read_text().splitlines())
    return [one for one in events if one["event"] == "message without a time"]


def test_a_message_that_blocks_or_kills_its_process_keeps_its_place() -> None:
    with gateway(f"10 {' '.join(POISON)} 30", "20 40", "time_of") as (directory, _, _):
        assert accepted(directory) == ["10", *POISON, "20", "30", "40"]
        found = [(one["source"], one["function"], one["reason"]) for one in warnings(directory)]
    function = "time_of (app.py:28)"
    assert found[:2] == [
        ("north", function, "it took longer than 1 s, or the decoder did"),
        ("north", function, "it ended its process, or the decoder did"),
    ]
    assert found[-1] == ("north", function, "MemoryError")


def test_a_message_that_closes_files_stops_nothing() -> None:
    with gateway("10 close 30", "20 40", "time_of") as (directory, _, _):
        assert sorted(accepted(directory)) == ["10", "20", "30", "40", "close"]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("naive", r"TypeError: the event time is datetime.datetime(1970, "),
        ("missing", "KeyError: 1"),
    ],
)
def test_the_first_message_without_a_time_is_told_for_each_source(
    function: str, reason: str
) -> None:
    with gateway("10 30", "20 40", function) as (directory, _, _):
        found = warnings(directory)
    assert sorted(one["source"] for one in found) == ["north", "south"]
    assert all(one["function"].startswith(f"{function} (app.py:") for one in found)
    assert found[0]["reason"].startswith(reason) or found[1]["reason"].startswith(reason)


def test_check_says_that_a_function_returns_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "north").write_text("10\n")
    (tmp_path / "south").write_text("exceptional\n")
    monkeypatch.chdir(tmp_path)
    hint = (
        "hint: app.py:31: time= of source 'north': TypeError: the event time is datetime.datetime("
    )
    result = CliRunner().invoke(main, ["check", "app.py", "--", "naive"])
    assert (hint in result.output, "'south': " in result.output) == (True, False), result.output
    assert "hint:" not in CliRunner().invoke(main, ["check", "app.py", "--", "time_of"]).output


def test_no_process_is_left_when_a_gateway_is_killed() -> None:
    with gateway("10", "20", "time_of") as (_, _, pid):
        below = processes_below(pid)
        assert len(below) >= 3  # what forks, and one for each source
    wait_until(lambda: not any(Path("/proc", str(one)).exists() for one in below))


def test_times_are_asked_for_in_batches_up_to_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "AHEAD_S", math.inf)
    asked: list[int] = []

    def times_of(payloads: Any) -> list[int]:
        asked.append(len(payloads))
        return [int(payload[-3:]) for payload in payloads]

    def items() -> Iterator[tuple[bytes, int] | None]:
        for number in range(AHEAD_MESSAGES + 1):
            yield b"%d" % number, number
        yield None
        yield b"7".zfill(AHEAD_BYTES), 7
        yield b"8", 8
        raise LookupError

    found: list[Any] = []
    with pytest.raises(LookupError):
        found.extend(timed(items(), times_of))
    assert asked == [AHEAD_MESSAGES, 1, 1, 1]
    assert [at for _, at in found] == [*range(AHEAD_MESSAGES + 1), None, 7, 8]
    monkeypatch.setattr(order, "AHEAD_S", 0.0)  # they do not come at once
    assert len([*timed([(b"1", 0), (b"2", 0)], times_of)]) == 2
    assert asked[-2:] == [1, 1]
    assert message_times._beginning([b"x" * AHEAD_BYTES, b"y"]) == [b"x" * AHEAD_BYTES]
