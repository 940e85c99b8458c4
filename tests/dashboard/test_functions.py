"""Which step a function belongs to, in profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.applications import joining
from wallaroo.dashboard.functions import functions_of
from wallaroo.testing import load

APPLICATION = """
import wallaroo


class Sum(wallaroo.Aggregation):
    def initial_accumulator(self):
        return []

    def update(self, message, values):
        values.append(message)

    def combine(self, one, other):
        return one + other

    def output(self, key, values):
        return sum(values)


def event_time(message):
    return message


def key(message):
    return message


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload):
    return int(payload)


class Idle:
    pass


def ring(timer, idle, timers):
    return timer


@wallaroo.state_computation(name="watch", state=Idle, on_timer=ring)
def watch(message, idle, timers):
    return message


def application_setup(args):
    windows = wallaroo.WINDOWS
    numbers = wallaroo.source("numbers", wallaroo.TCPSourceConfig("127.0.0.1", 0, decode))
    sums = numbers.key_by(key).to(watch).key_by(key).to(windows.over(Sum))
    return wallaroo.build_application("Sums", sums.to_sink(wallaroo.FileSinkConfig("out", str)))
"""
TIMES = [
    "range_windows(wallaroo.seconds(1)).with_event_time(event_time)",
    "session_windows(wallaroo.seconds(1)).with_event_time(event_time)",
    "count_windows(3)",
]


@pytest.mark.parametrize("windows", TIMES)
def test_functions_of_windows_and_timers_belong_to_their_steps(
    windows: str, tmp_path: Path
) -> None:
    text = APPLICATION.replace("WINDOWS", windows)
    file = tmp_path / "sums.py"
    file.write_text(text)
    functions = functions_of(load(str(file)))
    for line, definition in enumerate(text.splitlines(), 1):
        name = definition.strip().removeprefix("def ").partition("(")[0]
        step = functions.get(f"sums.py:{line}")
        of_windows = {"initial_accumulator", "update", "combine", "output"}
        if "with_event_time" in windows:
            of_windows.add("event_time")
        if name in of_windows and definition.strip().startswith("def "):
            assert step == "numbers · Sum"
        elif name == "ring":
            assert step == "numbers · watch"


def test_functions_of_joins_belong_to_their_steps() -> None:
    functions = functions_of(load("tests.applications.joining"))
    steps = {place: step for place, step in functions.items() if place.startswith("joining.py")}
    lines = Path(joining.__file__).read_text().splitlines()
    of_step = {
        lines[int(place.rpartition(":")[2]) - 1].removeprefix("def ").partition("(")[0]: step
        for place, step in steps.items()
    }
    assert of_step["pair"] == "Lefts · last"  # the first of the joins whose function it is
    assert of_step["time_of"] == "Lefts · as of"
