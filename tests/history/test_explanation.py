"""What an explanation says, on logs of applications whose state is known."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import wallaroo
from tests import random_applications
from tests.history.harness import Recorded, explained, random_messages
from tests.history.totals import FACTOR, Total, add, decode, encode, name_of, totals
from wallaroo.connectors.kafka.records import KafkaRecord
from wallaroo.connectors.kafka.stored import whole
from wallaroo.dataflow.json_codec import to_plain
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.journal.clock import Uptime
from wallaroo.history.changes import UNKNOWN, Change
from wallaroo.history.differences import ABSENT, is_same
from wallaroo.history.records import records
from wallaroo.history.rehearsal import Rehearsal
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve


@pytest.mark.parametrize("seed", range(150))
def test_each_key_of_a_random_application_is_explained(seed: int, tmp_path: Path) -> None:
    """The changes follow each other, and end in the state that the application has."""
    choose = random.Random(seed)
    application = resolve(random_applications.declared(choose))
    recorded = Recorded(tmp_path, application)
    for _ in range(choose.randint(1, 6)):
        sent = random_messages(choose, application, 40)
        recorded.run(sent, chunks=choose.randint(1, 3))
        if choose.random() < 0.3:  # as after a kill
            recorded.close()
            recorded = Recorded(tmp_path, application, recorded)
    state = recorded.driven.state()
    recorded.close()
    texts = {str(key) for entities in state.values() for key in entities}
    explained_here = set()
    for text in texts:
        changes, explanation = explained(tmp_path, application, text)
        assert not explanation.lacks
        for (name, key), of_entity in by_entity(changes).items():
            assert [change.recorded for change in of_entity] == [None] * len(of_entity)
            follow_each_other(of_entity)
            is_there = key in state[name]
            now = to_plain(state[name][key]) if is_there else ABSENT
            assert is_same(of_entity[-1].after, now)
            if is_there:
                explained_here.add((name, key))
    assert explained_here == {(name, key) for name in state for key in state[name]}
    # the same code, with state that stays as it makes it, comes to the same
    rehearsal = Rehearsal.of(application, records(tmp_path / LOG))
    assert rehearsal.messages
    assert rehearsal.entities().total() == len(explained_here)
    assert rehearsal.differing_names() == set()


def by_entity(changes: list[Change]) -> dict[tuple[str, Any], list[Change]]:
    found = defaultdict(list)
    for change in changes:
        assert change.where is not None
        found[change.where].append(change)
    return found


def follow_each_other(changes: list[Change]) -> None:
    before = ABSENT
    for change in changes:
        assert is_same(ABSENT if change.is_new else change.before, before)
        assert change.arrival is not None
        before = change.after


def test_a_change_has_its_message_its_path_and_what_came_of_it(
    tmp_path: Path,
) -> None:
    recorded = Recorded(tmp_path, totals())
    recorded.run([("numbers", b"ada 5"), ("numbers", b"ada+bob 2"), ("numbers", b"bob 1")])
    recorded.close()
    (first, second), _ = explained(tmp_path, totals(), "ada")
    assert first.arrival is not None
    assert (first.arrival.offset, first.arrival.source) == (0, "numbers")
    assert (first.is_new, first.before["sum"]) == (True, 0)
    assert not second.is_new
    assert second.arrival is not None
    assert second.arrival.offset == 1
    assert second.path == [
        ("decoder", {"$tuple": ["ada+bob", 2]}),
        ("split", {"$tuple": ["ada", 2]}),
    ]
    assert second.after["sum"] == 7
    assert second.outputs == [{"$tuple": ["ada", 7]}]
    assert second.sent == [("numbers", b"ada=7;")]


def test_a_message_that_fails_is_there_with_what_it_changed(
    tmp_path: Path,
) -> None:
    recorded = Recorded(tmp_path, totals())
    recorded.run([("numbers", b"ada 5"), ("numbers", b"ada -2")])
    recorded.close()
    (_, failed), _ = explained(tmp_path, totals(), "ada")
    assert failed.error == "ValueError: -2"
    assert (failed.before["seen"], failed.after["seen"]) == ([5], [5, -1])
    assert failed.recorded is None


def test_code_that_does_something_else_now_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded(tmp_path, totals())
    recorded.run([("numbers", b"ada 5")])
    monkeypatch.setitem(FACTOR, 0, 10)
    recorded.run([("numbers", b"ada 1"), ("numbers", b"ada 2")])
    recorded.close()
    monkeypatch.undo()
    (first, second, third), _ = explained(tmp_path, totals(), "ada")
    assert (first.recorded, second.recorded) == (None, None)
    assert third.after["sum"] == 8
    assert third.recorded["sum"] == 35


def test_a_key_of_another_type_is_found_by_what_python_shows(tmp_path: Path) -> None:
    @wallaroo.key_extractor
    def pair(message: tuple[str, int]) -> tuple[str, int]:
        return message[0], message[1] % 2

    pipeline = wallaroo.source("numbers", wallaroo.TCPSourceConfig("", 0, decode))
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, encode)
    built = wallaroo.build_application("Pairs", pipeline.key_by(pair).to(add).to_sink(sink))
    application = resolve(built)
    recorded = Recorded(tmp_path, application)
    recorded.run([("numbers", b"ada 5"), ("numbers", b"ada 4"), ("numbers", b"ada 3")])
    recorded.close()
    changes, _ = explained(tmp_path, application, "('ada', 1)")
    assert [change.after["sum"] for change in changes] == [5, 8]
    assert UNKNOWN not in [change.before for change in changes]


@pytest.mark.parametrize("envelope", [False, True])
def test_records_of_topics_are_explained_and_rehearsed(tmp_path: Path, envelope: bool) -> None:
    def of_record(record: Any) -> tuple[str, int]:
        name, _, number = (record.value if envelope else record).decode().partition(" ")
        return name, int(number)

    source = wallaroo.KafkaSourceConfig("numbers", "127.0.0.1:9", of_record, envelope=envelope)
    pipeline = wallaroo.source("numbers", source).key_by(name_of).to(add)
    sink = wallaroo.KafkaSinkConfig("totals", "127.0.0.1:9", encode)
    application = resolve(wallaroo.build_application("Topics", pipeline.to_sink(sink)))
    recorded = Recorded(tmp_path, application)
    payloads = [b"ada 5", b"bob 1", b"ada 2"]
    recorded.run(
        [("numbers", whole(KafkaRecord(one, key=b"k", timestamp_ms=5))) for one in payloads]
    )
    recorded.close()
    (_, second), _ = explained(tmp_path, application, "ada")
    assert second.recorded is None
    assert second.sent == [("numbers", b"ada=7;")]
    rehearsal = Rehearsal.of(application, records(tmp_path / LOG))
    assert rehearsal.differing_names() == set()
    assert rehearsal.sinks["numbers"].same == 3


class Clock:
    """A wall clock, and how long the machine has been running."""

    def __init__(self) -> None:
        self.now_ns = 10**18

    def __call__(self) -> int:
        return self.now_ns

    def passes(self) -> None:
        """Let some of a millisecond pass."""
        self.now_ns += 370_000

    def uptime(self) -> Uptime:
        return Uptime(1, self.now_ns)


class Sum(wallaroo.Aggregation[tuple[str, int], list[int], tuple[str, int]]):
    def initial_accumulator(self) -> list[int]:
        return [0]

    def update(self, message: tuple[str, int], accumulator: list[int]) -> None:
        accumulator[0] += message[1]

    def combine(self, one: list[int], other: list[int]) -> list[int]:
        return [one[0] + other[0]]

    def output(self, key: str, accumulator: list[int]) -> tuple[str, int]:
        return key, accumulator[0]


def applied(*steps: Any) -> Application:
    pipeline = wallaroo.source("numbers", wallaroo.TCPSourceConfig("", 0, decode))
    pipeline = pipeline.key_by(name_of)
    for step in steps:
        pipeline = pipeline.to(step)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, encode)
    return resolve(wallaroo.build_application("Applied", pipeline.to_sink(sink)))


def test_the_end_of_a_window_is_a_change_with_its_output(tmp_path: Path) -> None:
    application = applied(wallaroo.range_windows(wallaroo.seconds(10)).over(Sum))
    clock = Clock()
    recorded = Recorded(tmp_path, application, clock=clock, uptime=clock.uptime)
    recorded.run([("numbers", b"ada 5"), ("numbers", b"bob 1"), ("numbers", b"ada 2")])
    clock.now_ns += 60 * 10**9
    recorded.tick()
    assert recorded.driven.outputs
    recorded.close()
    changes, _ = explained(tmp_path, application, "ada")
    assert [change.recorded for change in changes] == [None, None, None]
    *_, closed = changes
    assert closed.arrival is not None
    assert closed.arrival.source is None
    assert closed.outputs == [{"$tuple": ["ada", 7]}]
    assert closed.sent == [("numbers", b"ada=7;")]
    follow_each_other(changes)


@pytest.mark.parametrize("seed", range(10))
def test_windows_by_time_of_arrival_are_explained(seed: int, tmp_path: Path) -> None:
    """Messages of a chunk that arrive within a millisecond have one time."""
    choose, clock = random.Random(seed), Clock()
    application = applied(wallaroo.session_windows(wallaroo.milliseconds(3)).over(Sum))
    recorded = Recorded(tmp_path, application, clock=clock, uptime=clock.uptime)
    for _ in range(8):
        sent = [b"%s %d" % (choose.choice([b"ada", b"bob"]), number) for number in range(20)]
        recorded.run([("numbers", one) for one in sent], choose.randint(1, 4), clock.passes)
        recorded.tick()
    recorded.close()
    for key in ("ada", "bob"):
        changes, _ = explained(tmp_path, application, key)
        assert [change.recorded for change in changes] == [None] * len(changes)
    assert Rehearsal.of(application, records(tmp_path / LOG)).differing_names() == set()


def ring(message: tuple[str, int], total: Total, timers: wallaroo.Timers) -> None:
    total.sum += message[1]
    if message[1] % 3 == 0:
        timers.cancel("ring")
    else:
        timers.set_after(wallaroo.seconds(5 + message[1] % 7), "ring")


def rung(timer: str, total: Total, _timers: wallaroo.Timers) -> tuple[str, int]:
    total.seen.append(total.sum)
    return timer, total.sum


RINGING = wallaroo.state_computation(
    name="ring", state=Total, on_timer=rung, ttl=wallaroo.seconds(20)
)(ring)


@pytest.mark.parametrize("seed", range(20))
def test_timers_and_expiry_are_explained(seed: int, tmp_path: Path) -> None:
    choose, clock, application = random.Random(seed), Clock(), applied(RINGING)
    recorded = Recorded(tmp_path, application, clock=clock, uptime=clock.uptime)
    for _ in range(12):
        if choose.random() < 0.5:
            some = choose.sample(["ada", "bob", "cyd"], choose.randint(1, 3))
            recorded.run([("numbers", b"%s %d" % (n.encode(), choose.randint(0, 9))) for n in some])
        clock.now_ns += choose.randint(0, 12) * 10**9
        if choose.random() < 0.7:
            recorded.tick()
    state = recorded.driven.state()["ring"]
    recorded.close()
    for key in ("ada", "bob", "cyd"):
        changes, _ = explained(tmp_path, application, key)
        assert [change.recorded for change in changes] == [None] * len(changes)
        if key in state:
            assert is_same(changes[-1].after, to_plain(state[key]))
    assert Rehearsal.of(application, records(tmp_path / LOG)).differing_names() == set()


def time_of(message: tuple[str, int]) -> int:
    return wallaroo.seconds(10**9 + message[1])


@pytest.mark.parametrize("seed", range(10))
def test_a_source_that_is_held_stops_the_clock_of_event_time_alone(
    seed: int, tmp_path: Path
) -> None:
    """As after a restart: messages may have waited meanwhile, for windows and not for `ttl`."""
    choose, clock = random.Random(seed), Clock()
    windows = wallaroo.range_windows(wallaroo.seconds(4)).with_event_time(time_of).over(Sum)
    application = applied(RINGING, windows)
    recorded = Recorded(tmp_path, application, clock=clock, uptime=clock.uptime)
    journal, held_ns = recorded.store.journal, 0

    def held(_source: int, _now_ns: int) -> tuple[tuple[int, int], ...]:
        return ((0, held_ns),)

    journal._buffer.held = journal.silence.held = held  # type: ignore[assignment, method-assign]
    for _ in range(12):
        some = choose.sample(["ada", "bob", "cyd"], choose.randint(1, 3))
        recorded.run([("numbers", b"%s %d" % (n.encode(), choose.randint(0, 9))) for n in some])
        passed_ns = choose.randint(0, 30) * 10**9
        clock.now_ns += passed_ns
        held_ns += passed_ns * (choose.random() < 0.5)
        recorded.tick()
    recorded.close()
    for key in ("ada", "bob", "cyd"):
        changes, _ = explained(tmp_path, application, key)
        assert [change.recorded for change in changes] == [None] * len(changes)
        assert all(change.arrival for change in changes)
    assert Rehearsal.of(application, records(tmp_path / LOG)).differing_names() == set()


def test_a_timer_and_the_end_of_an_idle_entity_are_changes(tmp_path: Path) -> None:
    application = applied(RINGING)
    clock = Clock()
    recorded = Recorded(tmp_path, application, clock=clock, uptime=clock.uptime)
    recorded.run([("numbers", b"ada 5"), ("numbers", b"bob 1")])
    clock.now_ns += 11 * 10**9
    recorded.tick()
    clock.now_ns += 600 * 10**9
    recorded.tick()
    recorded.run([("numbers", b"ada 1")])
    recorded.close()
    changes, _ = explained(tmp_path, application, "ada")
    assert [change.recorded for change in changes] == [None] * len(changes)
    assert ("numbers", b"ring=5;") in [sent for change in changes for sent in change.sent]
    assert changes[-1].is_new
    assert changes[-1].after["sum"] == 1
