"""For how long sources are held: time in which messages may wait does not count as silence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wallaroo
from tests.gateway.harness import opened
from wallaroo.gateway.journal.clock import Uptime
from wallaroo.gateway.journal.write_buffer import JournalLimits, Reached
from wallaroo.gateway.silence import SURE_NS, Silence
from wallaroo.gateway.tables import Tables
from wallaroo.gateway.turns import SURE_S, Turn, turns_of
from wallaroo.model.application import Application
from wallaroo.model.order import BEGINNING
from wallaroo.resolution.application import resolve
from wallaroo.wire.records import TICK_SOURCE

S = 10**9
BOOT = 7
NAMES = "a", "b", "c"


class Machine:
    """A clock, in the units of all who ask."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * S

    def seconds(self) -> float:
        return self.now_ns / S

    def wall(self) -> int:
        return self.now_ns

    def uptime(self) -> Uptime:
        return Uptime(BOOT, self.now_ns)

    def passes(self, seconds: float) -> None:
        self.now_ns += int(seconds * S)


@pytest.fixture
def machine() -> Machine:
    return Machine()


class Logs:
    """How far the logs of some sources are read."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.is_full = False

    def watched(self, machine: Machine) -> Callable[[], float]:
        silence = Silence(machine.wall, lambda: self.is_full)
        meeting = silence.watch([0], [lambda: self.at])
        return lambda: meeting.held() / S


@pytest.fixture
def logs() -> Logs:
    return Logs()


def test_sources_whose_logs_have_no_more_are_not_held(machine: Machine, logs: Logs) -> None:
    held = logs.watched(machine)
    assert held() == 0
    machine.passes(100)
    assert held() == 0


def test_sources_are_held_while_a_log_has_more_and_its_times_are_unknown(
    machine: Machine, logs: Logs
) -> None:
    logs.at = BEGINNING
    held = logs.watched(machine)
    machine.passes(10)
    assert held() == 10
    logs.at = None
    assert held() == 10
    machine.passes(10)
    assert held() == 10


def test_a_backlog_is_silent_for_the_time_that_lies_between_its_messages(
    machine: Machine, logs: Logs
) -> None:
    logs.at = 50 * S
    held = logs.watched(machine)
    assert held() == 0
    for read_s, of_messages_s, held_s in ((10, 4, 6), (10, 25, 6), (1, -20, 7), (5, 20, 12)):
        machine.passes(read_s)
        logs.at += int(of_messages_s * S)
        assert held() == held_s


def test_sources_are_held_while_the_journal_has_no_room(machine: Machine, logs: Logs) -> None:
    held = logs.watched(machine)
    logs.is_full = True
    assert held() == 0
    machine.passes(10)
    logs.is_full = False
    assert held() == 10
    machine.passes(10)
    assert held() == 10


def test_nobody_has_looked_while_the_gateway_stood_still(machine: Machine, logs: Logs) -> None:
    held = logs.watched(machine)
    assert held() == 0
    machine.passes(60)
    logs.at = BEGINNING
    assert held() == 60 - SURE_NS / S


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, BEGINNING, 1, 5, 9]))))
def test_the_clock_of_silence_never_runs_back_or_ahead(
    changes: list[tuple[int, int | None]],
) -> None:
    machine, logs = Machine(), Logs()
    held = logs.watched(machine)
    before = held()
    for seconds, at in changes:
        machine.passes(seconds)
        assert held() <= before + seconds
        logs.at = at if at is None or at == BEGINNING else at * S
        now = held()
        assert 0 <= now <= before + seconds
        before = now


def test_the_clock_stands_while_sources_are_held_however_unevenly_threads_run(
    tmp_path: Path, machine: Machine
) -> None:
    def wall() -> int:
        machine.passes(0.003)  # another thread runs in between
        return machine.now_ns

    with opened(tmp_path, clock=wall, uptime=machine.uptime, sources=NAMES) as store:
        store.journal.silence.watch([0], [lambda: BEGINNING])
        for number in range(9):
            store.journal.submit_read(0, bytes(1 << 20), Reached("rows", b"%d" % number))
            store.journal.alarm.set(0)
        assert store.journal.flush(10)
        blocks = list(store.journal.read(0, store.journal.end))
    assert len(blocks) >= 9
    assert len({block.arrived_ns - dict(block.held)[0] for block in blocks}) == 1


# --- what the log keeps --------------------------------------------------------------------------


def test_what_passes_while_the_gateway_does_not_run_is_no_silence(
    tmp_path: Path, machine: Machine
) -> None:
    def watched_run(pauses: list[float]) -> list[list[tuple[int, float]]]:
        with opened(tmp_path, clock=machine.wall, uptime=machine.uptime, sources=NAMES) as store:
            journal = store.journal
            journal.silence.watch([0, 2], [])
            before = journal.end
            for pause in pauses:
                machine.passes(pause)
                journal.submit(0, 1, b"m")
                journal.submit(1, 1, b"n")
                assert journal.flush(10)
            journal.alarm.set(machine.now_ns)
            assert journal.wait_accepted(0, len(pauses), 10)
            blocks = journal.read(before, journal.end)
            return [[(of, ns / S) for of, ns in block.held] for block in blocks]

    assert watched_run([1.0])[:2] == [[], []]
    machine.passes(30)
    first, of_other, *_ = watched_run([2.0])
    assert first == [(0, 30.0)]
    assert of_other == []
    machine.passes(5)
    assert watched_run([0.0])[0] == [(0, 35.0)]


def test_a_start_that_takes_long_is_no_silence(tmp_path: Path, machine: Machine) -> None:
    clocks = {"clock": machine.wall, "uptime": machine.uptime}
    with opened(tmp_path, sources=NAMES, **clocks) as store:  # type: ignore[arg-type]
        store.journal.silence.watch([0], [])
        store.journal.submit(0, 1, b"m")
        assert store.journal.flush(10)
    machine.passes(30)
    with opened(tmp_path, sources=NAMES, **clocks) as store:  # type: ignore[arg-type]
        machine.passes(4)  # until the sources are there
        store.journal.silence.watch([0], [])
        assert dict(store.journal.silence.held(0, machine.now_ns)) == {0: 34 * S}


def test_what_was_held_since_the_last_message_is_kept_with_the_clock(
    tmp_path: Path, machine: Machine
) -> None:
    for behind_s, away_s, due_s in ((9.0, 1.0, 10.0), (20.0, 5.0, 35.0)):
        with opened(tmp_path, clock=machine.wall, uptime=machine.uptime, sources=NAMES) as store:
            store.journal.silence.watch([0], [lambda: BEGINNING])
            machine.passes(behind_s)
        machine.passes(away_s)
        with opened(tmp_path, clock=machine.wall, uptime=machine.uptime, sources=NAMES) as store:
            store.journal.silence.watch([0], [])
            assert dict(store.journal.silence.held(0, machine.now_ns)) == {0: due_s * S}


def test_the_clock_goes_on_where_it_stood_when_the_gateway_was_killed(machine: Machine) -> None:
    before = Silence(machine.wall, lambda: False)
    stood_at = machine.now_ns
    machine.passes(50)
    arrived_ns = machine.now_ns
    machine.passes(0.004)  # while what arrived waits, the clock is stored
    before.stored([(0, machine.now_ns - stood_at)], machine.now_ns)
    before.stored([(0, arrived_ns - stood_at)], arrived_ns)
    kept = before.to_json()
    machine.passes(30)
    for values in (None, kept):
        again = before if values is None else Silence(machine.wall, lambda: False)
        again.restore(values)
        again.resume()
        again.watch([0], [lambda: BEGINNING])
        assert again.held(0, machine.now_ns) == [(0, machine.now_ns - stood_at)]


def test_a_source_keeps_how_long_it_was_held_when_others_come_before_it(
    tmp_path: Path, machine: Machine
) -> None:
    machine_clock = {"clock": machine.wall, "uptime": machine.uptime}
    with opened(tmp_path, sources=("a", "b"), **machine_clock) as store:  # type: ignore[arg-type]
        store.journal.silence.watch([1], [lambda: BEGINNING])
        machine.passes(50)
        store.journal.submit(1, 1, b"m")
        assert store.journal.flush(10)
    with opened(tmp_path, sources=("a", "n", "b"), **machine_clock) as store:  # type: ignore[arg-type]
        store.journal.silence.watch([1], [])
        store.journal.silence.watch([2], [])
        assert dict(store.journal.silence.held(TICK_SOURCE, machine.now_ns)) == {2: 50 * S}


def test_a_tick_has_that_of_all_sources(tmp_path: Path, machine: Machine) -> None:
    with opened(tmp_path, clock=machine.wall, uptime=machine.uptime, sources=NAMES) as store:
        store.journal.silence.watch([0, 2], [lambda: BEGINNING])
        store.journal.silence.watch([1], [])
        machine.passes(3)
        assert dict(store.journal.silence.held(TICK_SOURCE, machine.now_ns)) == {0: 3 * S, 2: 3 * S}


def test_the_clock_is_kept_for_silent_sources_too(tmp_path: Path, machine: Machine) -> None:
    clocks = {"clock": machine.wall, "uptime": machine.uptime}
    own_turns: Any = {"schedule": lambda: None, "sources": NAMES, **clocks}  # no thread takes them
    with opened(tmp_path, **own_turns) as store:
        store.journal.silence.watch([0], [])
        assert store.journal.alarm.until_turn() is not None
        machine.passes(25)
        assert store.journal.alarm.until_turn() == 0.0
        store.journal.alarm.ring_if_time()
        assert store.journal.alarm.until_turn() == 10.0


# --- sources -------------------------------------------------------------------------------------


def read_sources(*configs: wallaroo.CSVSourceConfig[dict[str, str]]) -> Application:
    windows = wallaroo.range_windows(wallaroo.seconds(1)).with_event_time(lambda row: int(row["t"]))
    streams = [
        wallaroo.source(f"rows {number}", config).key_by(lambda row: row["k"])
        for number, config in enumerate(configs)
    ]
    merged = streams[0].merge(*streams[1:]) if streams[1:] else streams[0]
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str.encode))
    counts = merged.to(windows.over(Counted()))
    return resolve(wallaroo.build_application("held", counts.to_sink(sink)))


class Counted(wallaroo.Aggregation[dict[str, str], list[int], str]):
    def initial_accumulator(self) -> list[int]:
        return [0]

    def update(self, message: dict[str, str], accumulator: list[int]) -> None:  # noqa: ARG002
        accumulator[0] += 1

    def combine(self, one: list[int], other: list[int]) -> list[int]:
        return [one[0] + other[0]]

    def output(self, key: str, accumulator: list[int]) -> str:
        return f"{key} {accumulator}"


def turns(application: Application, machine: Machine) -> tuple[dict[int, Turn], Silence]:
    silence = Silence(machine.wall, lambda: False)
    return turns_of(application, silence, Tables(application), machine.seconds), silence


def held(silence: Silence, source: int = 0) -> float:
    return dict(silence.held(source, silence._clock())).get(source, 0) / S


def test_a_file_that_is_read_alone_is_held_until_its_end(tmp_path: Path, machine: Machine) -> None:
    found, silence = turns(read_sources(wallaroo.CSVSourceConfig(tmp_path / "a.csv")), machine)
    (turn,) = found.values()
    assert turn.is_alone
    machine.passes(5)
    turn.came(0.0)
    assert held(silence) == 5
    turn.rests()
    machine.passes(SURE_S)
    turn.rests()
    assert held(silence) == 5
    turn.came(0.0)
    machine.passes(2)
    assert held(silence) == 7
    turn.ends()
    machine.passes(1_000)
    assert held(silence) == 7


def test_a_source_of_the_applications_code_is_held_only_while_its_messages_are_handed_on(
    tmp_path: Path, machine: Machine
) -> None:
    found, silence = turns(read_sources(wallaroo.CSVSourceConfig(tmp_path / "a.csv")), machine)
    (turn,) = found.values()
    turn.came(0.5)
    assert held(silence) == 0
    for _ in range(10):
        machine.passes(3)  # two of them in its read()
        turn.came(2.0)
    assert held(silence) == pytest.approx(10)


def test_sources_in_order_are_held_by_the_times_of_their_messages(
    tmp_path: Path, machine: Machine
) -> None:
    of_time = lambda row: int(row["t"])  # noqa: E731
    configs = [wallaroo.CSVSourceConfig(tmp_path / f"{n}.csv", time=of_time) for n in "ab"]
    found, silence = turns(read_sources(*configs), machine)
    one, two = found[0], found[1]
    one.limit(100 * S)
    two.limit(101 * S)
    assert held(silence) == 0
    machine.passes(10)
    assert held(silence) == 10
    one.limit(104 * S)  # the other one is behind it now
    assert held(silence) == held(silence, 1) == 9
    machine.passes(10)
    two.limit(103 * S)
    assert held(silence) == 17
    one.rests()
    two.rests()
    machine.passes(SURE_S)
    assert held(silence) == 17


def test_a_source_that_is_left_out_holds_nobody(tmp_path: Path, machine: Machine) -> None:
    config = wallaroo.CSVSourceConfig(
        tmp_path / "a.csv", time=lambda row: int(row["t"]), idle=wallaroo.seconds(5)
    )
    found, silence = turns(read_sources(config), machine)
    found[0].reads(BEGINNING)
    for seconds in range(1, 100):
        machine.passes(1)
        assert held(silence) == min(seconds, 6)


def test_what_is_read_is_stored_with_how_long_it_was_held(tmp_path: Path, machine: Machine) -> None:
    with opened(
        tmp_path, JournalLimits(), clock=machine.wall, uptime=machine.uptime, sources=NAMES
    ) as store:
        store.journal.silence.watch([0], [lambda: BEGINNING])
        machine.passes(3)
        store.journal.submit_read(0, b"m", Reached("rows", b"1"))
        assert store.journal.flush(10)
        (block,) = store.journal.read(0, 1)
        assert block.held == ((0, 3 * S),)
