"""Windows close on time, whatever the wall clock does, and whenever the gateway starts."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.harness import opened as opened_store
from tests.helpers import wait_until
from wallaroo.gateway.journal import clock as clock_module
from wallaroo.gateway.journal.clock import ALLOWANCE_NS, Reading, SteadyClock, Uptime
from wallaroo.gateway.journal.journal import Journal

S = 10**9
DAY = 86_400 * S
START = 1_700_000_000 * S


@dataclass
class Machine:
    """A machine with a wall clock and a time since its start."""

    wall: int = START
    up: int = 1000 * S
    boot: int = 1

    def clock(self, last: Reading | None = None) -> SteadyClock:
        return SteadyClock(lambda: self.wall, lambda: Uptime(self.boot, self.up), last)

    def wait(self, ns: int) -> None:
        self.wall += ns
        self.up += ns


def test_it_follows_a_right_clock() -> None:
    machine = Machine()
    clock = machine.clock()
    for pause in (0, S, 60 * S, DAY, 365 * DAY):
        machine.wait(pause)
        assert clock.now() == machine.wall


def test_it_follows_small_corrections() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += S // 2
    assert clock.now() == machine.wall
    machine.wall -= S // 2
    for _ in range(60):
        machine.wait(S)
        clock.now()
    assert clock.now() == machine.wall


@pytest.mark.parametrize("jump", [-10 * S, 10 * S])
def test_a_jump_that_stays_is_made_up_for_slowly(jump: int) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += jump
    before = clock.now()
    assert before <= START + S
    for _ in range(1001):
        machine.wait(S)
        passed = clock.now() - before
        assert 0.99 * S <= passed <= 1.01 * S
        before += passed
    assert before == machine.wall


EVENTS = st.one_of(
    st.tuples(st.just("wait"), st.integers(0, 2 * DAY)),
    st.tuples(st.just("jump"), st.integers(-3 * DAY, 3 * DAY)),
    st.tuples(st.just("restart"), st.just(0)),
)


@given(st.lists(EVENTS, max_size=30))
def test_it_goes_at_the_pace_of_time_whatever_the_wall_clock_does(
    events: list[tuple[str, int]],
) -> None:
    machine = Machine()
    clock = machine.clock()
    began = clock.now()
    passed = 0
    for event, ns in events:
        before = clock.now()
        if event == "wait":
            machine.wait(ns)
            passed += ns
        elif event == "jump":
            machine.wall += ns
        else:
            clock = machine.clock(clock.read())
        now = clock.now()
        if event == "wait":
            assert 0.99 * ns - 1 <= now - before <= 1.01 * ns + ALLOWANCE_NS
        else:
            assert 0 <= now - before <= ALLOWANCE_NS
    restarts = sum(event == "restart" for event, _ in events)
    most = 1.01 * passed + (1 + restarts) * ALLOWANCE_NS
    assert 0.99 * passed - len(events) <= clock.now() - began <= most


@pytest.mark.parametrize("order", list(itertools.permutations(["ahead", "restart", "back"])))
def test_a_day_ahead_and_back_with_a_restart_at_any_time(order: tuple[str, ...]) -> None:
    machine = Machine()
    clock = machine.clock()
    jumps = {"ahead": DAY, "back": -DAY}
    for event in order:
        machine.wait(S)
        machine.wall += jumps.get(event, 0)
        if event == "restart":
            clock = machine.clock(clock.read())
        clock.now()
    before = clock.now()
    machine.wait(60 * S)
    assert abs(clock.now() - before - 60 * S) <= 2 * S
    assert abs(clock.now() - machine.wall) <= 2 * S


def test_after_a_start_of_the_machine_the_wall_clock_counts_unless_it_is_behind() -> None:
    machine = Machine()
    last = machine.clock().read()
    later = Machine(wall=START + 30 * DAY, up=10 * S, boot=2)
    assert later.clock(last).now() == later.wall
    earlier = Machine(wall=START - DAY, up=10 * S, boot=2)
    clock = earlier.clock(last)
    before = clock.now()
    assert before == START
    earlier.wait(100 * S)
    assert clock.now() - before == 99 * S


def test_a_jump_is_logged_once_and_so_is_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []

    class Log:
        def warning(self, event: str, **_more: object) -> None:
            logged.append(event)

        info = warning

    monkeypatch.setattr(clock_module, "log", Log())
    machine = Machine()
    clock = machine.clock()
    machine.wall += DAY
    for _ in range(10):
        machine.wait(S)
        clock.now()
    machine.wall -= DAY
    for _ in range(200):
        machine.wait(S)
        clock.now()
    assert logged == ["clock jumped", "clock is right again"]


@contextlib.contextmanager
def opened(directory: Path, machine: Machine) -> Iterator[Journal]:
    with opened_store(
        directory,
        clock=lambda: machine.wall,
        uptime=lambda: Uptime(machine.boot, machine.up),
    ) as store:
        yield store.journal


def tick(journal: Journal) -> int:
    """Let the journal take a tick; the time that it has stored for it."""
    offset = journal.end
    journal.alarm.set(0)
    wait_until(lambda: journal.end > offset, "the tick")
    (stored,) = journal.read(offset, offset + 1)
    return stored.arrived_ns


@pytest.mark.parametrize("killed", [False, True])
def test_no_tick_is_stored_with_a_time_of_tomorrow(tmp_path: Path, killed: bool) -> None:
    machine = Machine()
    ticks = []
    directory = tmp_path / "first"
    directory.mkdir()
    with opened(directory, machine) as journal:
        ticks.append(tick(journal))
        machine.wall += DAY
        machine.wait(10 * S)
        ticks.append(tick(journal))
        if killed:
            directory = Path(shutil.copytree(directory, tmp_path / "second"))
    with opened(directory, machine) as journal:
        ticks.append(tick(journal))
        machine.wall -= DAY
        machine.wait(10 * S)
        ticks.append(tick(journal))
    with opened(directory, machine) as journal:
        machine.wait(10 * S)
        ticks.append(tick(journal))
        journal.submit(0, 1, b"message")
        wait_until(lambda: journal.accepted.get(0))
        *_, message = journal.read(0, journal.end)
    gaps = [round((after - before) / S) for before, after in itertools.pairwise(ticks)]
    assert sum(gaps) == pytest.approx(30, abs=2)
    assert all(gap <= 11 for gap in gaps)
    assert message.arrived_ns - START <= 32 * S


def test_a_tick_comes_when_it_is_due_though_the_clock_went_back(tmp_path: Path) -> None:
    machine = Machine()
    with opened(tmp_path, machine) as journal:
        due = tick(journal) + 5 * S
        offset = journal.end
        journal.alarm.set(due)
        machine.wall -= DAY
        machine.up += 6 * S
        wait_until(lambda: journal.end > offset, "the tick")
        assert journal.end == offset + 1


FAKED = """
    import sys, time
    from wallaroo.gateway.journal.clock import SteadyClock, uptime
    clock = SteadyClock()
    began, wall, up = clock.now(), time.time_ns(), uptime().ns
    while abs(time.time_ns() - wall) < 3600 * 10**9:
        with open(sys.argv[1], "w") as file:
            file.write("+1d")
        clock.now()
    assert clock.now() - began < uptime().ns - up + 2 * 10**9, clock.now() - began
"""


def test_a_real_faked_clock(tmp_path: Path) -> None:
    libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not libraries:
        pytest.skip("libfaketime (Debian: faketime) is not installed")
    at = tmp_path / "faketime"
    at.write_text("+0")
    environment = {
        "LD_PRELOAD": str(libraries[0]),
        "FAKETIME_TIMESTAMP_FILE": str(at),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    program = [sys.executable, "-c", textwrap.dedent(FAKED), str(at)]
    done = subprocess.run(
        program, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
