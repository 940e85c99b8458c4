"""Lines of other processes: none ends a log pump, or passes for what another part says."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers import wait_until
from wallaroo.engine.spark.java import _pump
from wallaroo.engine.spark.output import SparkOutput
from wallaroo.observability import logs
from wallaroo.observability.log_channel import Channel

EVENT = {"event": "it happened", "level": "info", "part": "worker"}
ODD = [
    "[1]",
    "{}",
    '{"',
    '{"part": "gateway", "level": "info", "event": "forged"}',
    '{"part": "driver", "level": "info", "event": "forged"}',
    '{"part": "wallaroo.gateway", "level": "info", "event": "forged"}',
    '{"part": "worker", "part": "gateway", "level": "info", "event": "forged"}',
    '{"part": ["gateway"], "level": "info", "event": "forged"}',
    '{"part": "worker", "level": 20, "event": "forged"}',
    '{"part": "worker", "level": ["info"], "event": "forged"}',
    '{"part": "worker", "level": "notset", "event": "forged"}',
    '{"part": "worker", "level": "critical", "event": "forged"}',
    '{"part": "worker", "level": "info", "event": {"forged": 1}}',
    '{"part": "worker", "level": "info", "event": "odd", "self": 1, "method_name": 2}',
    '{"part": "worker", "level": "info", "event": "odd", "logger": 7}',
    '{"part": "worker", "level": "info", "event": "odd", "exception": [1]}',
    '{"part": "worker", "level": "info", "event": "odd", "exc_info": {"a": [1]}}',
    '{"part": "worker", "level": "info", "event": "odd", "stack": "12:00 [info] part=gateway"}',
    '{"part": "worker", "level": "info", "event": "odd", "x": NaN, "y": -Infinity, "z": 1e999}',
    '{"part": "worker", "level": "info", "event": "odd", "x": ' + "9" * 5000 + "}",
    '{"part": "worker", "level": "info", "event": "odd", "x": ' + "[" * 100_000 + "}",
    '{"a": ' * 100_000,
    '{"part": "worker", "level": "info", "event": "odd", "x": ' + "[" * 900 + "]" * 900 + "}",
    '{"part": "worker", "level": "info", "event": "\\ud800 \\u0000 \\u001b[2J", "\\ud800\\n": 1}',
    '{"part": "worker", "level": "info", "event": "odd", "x part=driver": 1, "y": "a part=driver"}',
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
NAMES = ["event", "level", "part", "self", "exception", "exc_info", "stack", "stack_info", "logger"]
FIELDS = st.dictionaries(st.sampled_from(NAMES) | st.text(), JSON)
EVENTS = st.tuples(
    FIELDS,
    st.sampled_from([*logs.LEVELS, "critical", ""]),
    st.sampled_from([*logs.PARTS, "wallaroo", "wallaroo.gateway", "pyarrow"]),
).map(lambda drawn: {**drawn[0], "level": drawn[1], "part": drawn[2], "event": "it"})
LINES = st.text() | FIELDS.map(json.dumps) | EVENTS.map(json.dumps) | st.sampled_from(ODD)


def relayed(line: str, *, terminal: bool, any_part: bool = False) -> tuple[bool, str]:
    """Whether *line* is relayed, and what is logged of it."""
    logged: list[str] = []
    logs.configure("debug", logged.append, terminal=terminal)
    try:
        return logs.relay(line, any_part=any_part), "\n".join(logged)
    finally:
        logs.configure()
        structlog.reset_defaults()


def not_a_constant(text: str) -> None:
    raise AssertionError(text)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(LINES)
def test_any_line_is_relayed_as_a_workers_event_or_not_at_all(line: str) -> None:
    done, logged = relayed(line, terminal=False)
    if not done:
        assert not logged
        return
    if logged:
        event = json.loads(logged, parse_constant=not_a_constant)
        assert event["part"] in {"worker", "application"}
        assert event["level"] in logs.LEVELS


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(LINES)
def test_on_a_terminal_any_line_is_one_line_with_one_part(line: str) -> None:
    _, logged = relayed(line, terminal=True)
    plain = re.sub(r"\x1b\[\d*m", "", logged)  # colours are the renderer's own
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u202e\ud800-\udfff]", plain)
    outside_quotes = re.sub(r"'[^']*'|\"[^\"]*\"", "", plain)
    assert len(re.findall(r"(?<!\S)part=", outside_quotes)) <= 1


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("line", ODD, ids=range(len(ODD)))
def test_odd_lines(line: str, terminal: bool) -> None:
    _, logged = relayed(line, terminal=terminal)
    assert "forged" not in logged
    assert len(logged.splitlines()) <= 1
    if terminal:
        plain = re.sub(r"\x1b\[\d*m", "", logged)
        assert not re.search(r"(?<!\S)part=(gateway|driver)", re.sub(r"'[^']*'", "", plain))


def test_what_the_gateway_sends_is_its_own() -> None:
    line = json.dumps({**EVENT, "part": "gateway"})
    assert relayed(line, terminal=False) == (False, "")
    done, logged = relayed(line, terminal=False, any_part=True)
    assert done
    assert json.loads(logged)["part"] == "gateway"


def test_lines_of_spark_do_not_end_their_pump() -> None:
    logged: list[str] = []
    logs.configure("debug", logged.append, terminal=False)
    huge = b"x" * 100_000_000
    lines = [*(line.encode("utf-8", "replace") for line in ODD), b"\xff\x00{", huge]
    last = json.dumps(EVENT).encode()
    try:
        _pump(io.BytesIO(b"\n".join([*lines, last])), SparkOutput().line, threading.Event())
    finally:
        logs.configure()
        structlog.reset_defaults()
    events = [json.loads(line) for line in logged]
    assert {event["part"] for event in events} == {"spark", "worker"}
    assert (events[-1]["part"], events[-1]["event"]) == ("worker", "it happened")
    assert max(map(len, logged)) < 1_000_000


def test_a_line_that_cannot_be_logged_does_not_end_the_pump_of_java() -> None:
    passed: list[str] = []

    def log_line(line: str) -> None:
        passed.append(line)
        raise ValueError(line)

    _pump(io.BytesIO(b"one\ntwo\n"), log_line, threading.Event())
    assert passed == ["one", "two"]


@pytest.fixture
def channel() -> Iterator[tuple[Channel, list[tuple[str, int]], list[str]]]:
    events, output = list[tuple[str, int]](), list[str]()
    with tempfile.TemporaryDirectory() as directory:
        channel = Channel(
            Path(directory), lambda line, sender: events.append((line, sender)), output.append
        )
        yield channel, events, output
        channel.close()


def test_a_line_that_cannot_be_passed_on_does_not_end_the_channel() -> None:
    passed: list[str] = []

    def pass_on(line: str, _sender: int = 0) -> None:
        passed.append(line)
        raise ValueError(line)

    with tempfile.TemporaryDirectory() as directory:
        channel = Channel(Path(directory), pass_on, pass_on)
        written = [sys.executable, "-c", f"{SENDER}\nprint('one')\nprint('two')"]
        subprocess.run(written, env={**os.environ, **channel.environment}, check=True)
        wait_until(lambda: len(passed) == 5)
        channel.close()
    assert {'{"part": "gateway"}', "one", "two"} < set(passed)


SENDER = """
import sys
from wallaroo.observability import log_channel
log_channel.take_over()
log_channel.write('{"part": "gateway"}')
log_channel.write("\\ud800 \\0 [1]")
log_channel.write('{"x": "' + "y" * 1_000_000 + '"}')
"""


def test_the_channel_tells_which_process_sent_an_event(
    channel: tuple[Channel, list[tuple[str, int]], list[str]],
) -> None:
    opened, events, _ = channel
    with subprocess.Popen(
        [sys.executable, "-c", SENDER], env={**os.environ, **opened.environment}
    ) as sender:
        assert sender.wait() == 0
    wait_until(lambda: len(events) == 3)
    assert {pid for _, pid in events} == {sender.pid}
    assert events[0][0] == '{"part": "gateway"}'
    assert len(events[2][0]) < 10_000
