"""Generators, files and sources and sinks of an application's own, exactly once across kills."""

from __future__ import annotations

import contextlib
import re
import signal
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import wait_until
from tests.spark.exactly_once import LINES, NUMBERS
from tests.spark.harness import PATIENCE_S, kill_gateway
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

APP = Path(__file__).with_name("exactly_once.py")
PAGE = Path(__file__).parents[2] / "docs" / "connectors.md"


def run(app: Path, directory: Path, *options: str, args: Path) -> BackgroundRun:
    state = str(directory / "state")
    command = ["run", str(app), "--workers", "2", "--state-dir", state, *options, "--", str(args)]
    return BackgroundRun(command)


def kill_driver(running: BackgroundRun) -> None:
    running.process.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("kill", [kill_gateway, kill_driver])
def test_files_and_generators_are_taken_and_written_once_whatever_is_killed(
    tmp_path: Path, kill: Callable[[BackgroundRun], None]
) -> None:
    out = tmp_path / "out.txt"
    (tmp_path / "in.txt").write_text("".join(f"{number}\n" for number in range(LINES)))
    with run(APP, tmp_path, "--until-done", args=tmp_path) as running:
        assert running.sources == {
            "Numbers": "generator Numbers",
            "Lines": f"file {tmp_path}/in.txt",
        }
        began = lambda: out.exists() and out.stat().st_size > 10_000  # noqa: E731
        wait_until(began, "the first outputs", PATIENCE_S)
        kill(running)
        (tmp_path / "go").touch()
        code = running.process.wait(PATIENCE_S)
    while code != 0:
        assert out.stat().st_size > 10_000
        with run(APP, tmp_path, "--until-done", args=tmp_path) as running:
            code = running.process.wait(PATIENCE_S)
            assert code == 0
    numbers: dict[int, int] = defaultdict(int)
    counts: dict[int, list[int]] = defaultdict(list)
    for line in out.read_text().splitlines():
        number, count = map(int, line.split())
        numbers[number] += 1
        counts[number % 97].append(count)
    assert len(numbers) == NUMBERS
    assert all(times == 1 + (number < LINES) for number, times in numbers.items())
    assert all(found == list(range(1, len(found) + 1)) for found in counts.values())


def test_the_application_of_the_page_reads_and_writes_its_tables(tmp_path: Path) -> None:
    application, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    shop, path = tmp_path / "shop.py", tmp_path / "shop.db"
    shop.write_text(application)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, count INTEGER)")

        def order(*orders: tuple[str, int]) -> None:
            database.executemany("INSERT INTO orders (item, count) VALUES (?, ?)", orders)

        def totals() -> list[str]:
            with contextlib.suppress(sqlite3.OperationalError):  # the sink makes the table
                found = database.execute("SELECT total FROM totals ORDER BY number").fetchall()
                return [total for (total,) in found]
            return []

        order(("nut", 2), ("bolt", 1))
        with run(shop, tmp_path, args=path) as running:
            assert running.sources == {"Orders": "Orders"}
            order(("nut", 3))
            due = ["bolt: 1", "nut: 2", "nut: 5"]
            wait_until(lambda: sorted(totals()) == due, "the totals", PATIENCE_S)
            assert running.stop() == 0


def test_a_source_that_cannot_go_on_fails_a_run_once_what_others_gave_is_delivered(
    tmp_path: Path,
) -> None:
    for _ in range(2):  # it is the same at the next start
        with run(APP, tmp_path, "--until-done", args=tmp_path) as running:
            wait_until(lambda: "source failed" in told(running), "the failure", PATIENCE_S)
            (tmp_path / "go").touch()
            assert running.process.wait(PATIENCE_S) == 1
        assert "source 'Lines' (file " in told(running)
        assert "cannot continue: FileNotFoundError: " in told(running)
        assert len((tmp_path / "out.txt").read_text().splitlines()) == NUMBERS


def told(running: BackgroundRun) -> str:
    return " ".join(event["event"] for event in running.events)


def test_a_run_that_ends_with_its_sources_waits_for_its_windows(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(SUMS)
    with run(tmp_path / "sums.py", tmp_path, "--until-done", args=tmp_path / "out.txt") as running:
        assert running.process.wait(PATIENCE_S) == 0
    sums = [int(line) for line in (tmp_path / "out.txt").read_text().splitlines()]
    assert sum(sums) == sum(range(1000))


def test_a_run_that_ends_with_its_sources_waits_for_timers_and_not_for_expiry(
    tmp_path: Path,
) -> None:
    (tmp_path / "idle.py").write_text(IDLE)
    with run(tmp_path / "idle.py", tmp_path, "--until-done", args=tmp_path / "out.txt") as running:
        assert running.process.wait(PATIENCE_S) == 0
    assert (tmp_path / "out.txt").read_text().splitlines() == ["the last one was 999"]


SUMS = """
import wallaroo

class Numbers:
    def initial_value(self):
        return 0

    def apply(self, previous):
        return previous + 1 if previous < 999 else None

class Sum(wallaroo.Aggregation):
    def initial_accumulator(self):
        return [0]

    def update(self, number, total):
        total[0] += number

    def combine(self, left, right):
        return [left[0] + right[0]]

    def output(self, key, total):
        return total[0]

def application_setup(args):
    window = wallaroo.range_windows(wallaroo.seconds(1)).over(Sum)
    numbers = wallaroo.source("Numbers", wallaroo.GenSourceConfig(Numbers()))
    sink = wallaroo.FileSinkConfig(args[0], wallaroo.encoder(str), framing="lines")
    return wallaroo.build_application("Sums", numbers.to(window).to_sink(sink))
"""
IDLE = """
import wallaroo

class Numbers:
    def initial_value(self):
        return 0

    def apply(self, previous):
        return previous + 1 if previous < 999 else None

class Last:
    number = None

def say(_name, last, _timers):
    return f"the last one was {last.number}"

@wallaroo.state_computation(name="say", state=Last, on_timer=say, ttl=wallaroo.hours(24))
def keep(number, last, timers):
    last.number = number
    timers.set_after(wallaroo.seconds(2))

@wallaroo.table_join(name="join", ttl=wallaroo.hours(24))
def joined(left, right):
    return left

def application_setup(args):
    numbers = wallaroo.source("Numbers", wallaroo.GenSourceConfig(Numbers())).collect()
    said = numbers.join(numbers, joined).to(keep)
    sink = wallaroo.FileSinkConfig(args[0], wallaroo.encoder(str), framing="lines")
    return wallaroo.build_application("Idle", said.to_sink(sink))
"""
