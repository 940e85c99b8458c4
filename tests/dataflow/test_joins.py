"""Joins of all kinds, held against what is worked out by hand and against all pairs there are.

The engine runs without Spark: in batches cut at random, with restarts between them and ticks of the
clock that come when they come. What it emits for a key depends on the messages and their times of
arrival alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wallaroo
from tests.dataflow.harness import Driven, tick
from tests.dataflow.joined_by_hand import ByHand, Kind
from wallaroo import nanoseconds
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.testing import Simulation, simulate
from wallaroo.wire.records import Block


class Event(NamedTuple):
    """A message as it is sent."""

    key: str
    id: int
    time: int


class Happening(NamedTuple):
    """A message, and what happens around it."""

    source: str
    key: str
    step: int
    """From the time of the message before to that of this one."""
    pause: int
    """Time until it arrives, since the one before."""
    ticks: bool
    """Whether a tick comes before it, halfway."""
    cut: int
    """What ends before it: 1 for a batch, 2 for the process, too."""


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> Event:
    key, id_, time = payload.decode().split()
    return Event(key, int(id_), int(time))


@wallaroo.encoder
def encode(text: str) -> str:
    return text


@wallaroo.key_extractor
def key_of(event: Event) -> str:
    return event.key


@wallaroo.computation(name="say late")
def say_late(event: Event) -> str:
    return f"{event.key} {event.id}"


def time_of(event: Event) -> int:
    return event.time


def pair(left: Event, right: Event | None) -> str:
    return f"{left.key} {left.id}+{'' if right is None else right.id}"


def is_third(right: Event) -> bool:
    return right.id % 3 == 0


def sink(port: int) -> wallaroo.TCPSinkConfig[str]:
    return wallaroo.TCPSinkConfig("", port, encode)


def join_of(kind: Kind) -> Any:
    how: Any = "left" if kind.keeps_left else "inner"
    times: Any = {}
    if kind.by_event:
        times = {"left_time": time_of, "right_time": time_of, "delay": nanoseconds(kind.delay)}
    before, after = nanoseconds(kind.before), nanoseconds(kind.after)
    decorated: Any
    if kind.kind == "table":
        ttl = before if kind.before else None
        deleted = is_third if kind.deletes else None
        decorated = wallaroo.table_join(name="join", how=how, ttl=ttl, deleted=deleted)
    elif kind.kind == "asof":
        decorated = wallaroo.asof_join(name="join", how=how, tolerance=before, **times)
    else:
        bounds: Any = {"before": before, "after": after, **times}
        decorated = wallaroo.interval_join(name="join", how=how, **bounds)
    return decorated(pair)


def application(kind: Kind) -> Application:
    left, right = (
        wallaroo.source(name, wallaroo.TCPSourceConfig("", 0, decode)).key_by(key_of)
        for name in ("Left", "Right")
    )
    joined = left.join(right, join_of(kind))
    parts = [joined.to_sink(sink(1))]
    if kind.by_event:
        parts.append(joined.late().to(say_late).to_sink(sink(2)))
    return resolve(wallaroo.build_application("Joins", *parts))


@st.composite
def kinds(draw: st.DrawFn) -> Kind:
    kind, keeps_left = draw(st.sampled_from(["table", "asof", "interval"])), draw(st.booleans())
    if kind == "table":
        # the longer ones are freed by a tick that comes later than they expire
        ttl = draw(st.sampled_from([0, 1, 3, 6, 50, 70]))
        return Kind(kind, keeps_left, by_event=False, before=ttl, deletes=draw(st.booleans()))
    by_event = kind == "asof" or draw(st.booleans())
    before, after = draw(st.integers(0, 8)), draw(st.integers(0, 8)) if kind == "interval" else 0
    delay = draw(st.sampled_from([0, 1, 3, 9])) if by_event else 0
    return Kind(kind, keeps_left, by_event, before, after, delay)


happenings = st.lists(
    st.builds(
        Happening,
        st.sampled_from(["Left", "Right"]),
        st.sampled_from("aaabcde"),
        st.integers(-5, 7),
        st.sampled_from([0, 0, 1, 1, 2, 3, 14, 50]),
        st.booleans(),
        st.sampled_from([0, 0, 0, 1, 2]),
    ),
    max_size=30,
)
END_NS = 10_000


class Sent(NamedTuple):
    """A message with its place in time."""

    source: str
    event: Event
    now: int

    def for_simulation(self) -> tuple[str, bytes, int]:
        return self.source, " ".join(map(str, self.event)).encode(), self.now


def sent_of(happening: Sequence[Happening]) -> list[Sent]:
    now, time, sent = 0, 50, list[Sent]()
    for id_, one in enumerate(happening):
        now, time = now + one.pause, time + one.step
        sent.append(Sent(one.source, Event(one.key, id_, time), now))
    return sent


def simulated(made: Application, sent: Sequence[Sent]) -> Simulation:
    return simulate(made, [one.for_simulation() for one in sent], until_ns=END_NS)


@settings(max_examples=400, deadline=None)
@given(kinds(), happenings)
def test_every_kind_emits_what_is_worked_out_by_hand_however_batches_are_cut(
    kind: Kind, happening: list[Happening]
) -> None:
    made, sent = application(kind), sent_of(happening)
    simulation = simulated(made, sent)
    late = {message.id for _, _, message in simulation.late}
    by_hand: dict[str, ByHand] = defaultdict(lambda: ByHand(kind, late))
    for source, event, now in sent:
        key = by_hand[event.key]
        key.take(is_left=source == "Left", number=event.id, event=event.time, now=now)
    for one in by_hand.values():
        one.clock(END_NS)
    due = {key: one.said for key, one in by_hand.items() if one.said}
    due_late = {key: one.late for key, one in by_hand.items() if one.late}
    assert by_key(simulation.by_sink[made.sinks[0].name]) == due
    assert sorted(late) == sorted(id_ for ids in due_late.values() for id_ in ids)
    driven = drive(made, sent, happening)
    assert sum(one.open for one in driven.tally.metrics.windows.values()) == kept(driven)
    driven.restart()
    driven.batch([[tick(2 * len(sent), END_NS)]])
    assert by_key(driven.outputs[made.sinks[0].name]) == due
    assert not simulation.set_aside
    assert not driven.tally.set_aside
    assert driven.state() == simulation.state
    assert sum(driven.tally.late.values()) == len(simulation.late)
    if len(made.sinks) > 1:
        for outputs in (simulation.by_sink, driven.outputs):
            said = by_key(outputs[made.sinks[1].name])
            assert {key: [*map(int, ids)] for key, ids in said.items()} == due_late
    if kind.kind != "table":
        assert not kept(driven), "all messages were freed"


@settings(max_examples=300, deadline=None)
@given(kinds().filter(lambda kind: kind.kind == "interval"), happenings)
def test_messages_that_are_not_late_give_every_pair_and_each_unmatched_one_once(
    kind: Kind, happening: list[Happening]
) -> None:
    made, sent = application(kind), sent_of(happening)
    simulation = simulated(made, sent)
    late = {message.id for _, _, message in simulation.late}
    lefts, rights = (
        [
            (one.event, one.event.time if kind.by_event else one.now)
            for one in sent
            if one.source == source and one.event.id not in late
        ]
        for source in ("Left", "Right")
    )
    due = [
        pair(left, right)
        for left, left_time in lefts
        for right, right_time in rights
        if left.key == right.key and left_time - kind.before <= right_time <= left_time + kind.after
    ]
    if kind.keeps_left:
        matched = {said.split("+")[0] for said in due}
        due += [pair(left, None) for left, _ in lefts if f"{left.key} {left.id}" not in matched]
    outputs = simulation.by_sink[made.sinks[0].name]
    assert sorted(output.decode() for output in outputs) == sorted(due)


@settings(max_examples=300, deadline=None)
@given(kinds().filter(lambda kind: kind.by_event), happenings)
def test_no_message_is_late_that_comes_within_the_delay_of_its_time(
    kind: Kind, happening: list[Happening]
) -> None:
    """A message may arrive later than another by the delay, and then have an earlier time."""
    made, now, sent = application(kind), 0, list[Sent]()
    for id_, one in enumerate(happening):
        now += one.pause
        time = now - (one.step % kind.delay if kind.delay else 0)
        sent.append(Sent(one.source, Event(one.key, id_, time), now))
    if kind.kind == "asof" and not kind.delay:  # of equal times, the right one must come first
        sent = [Sent(s, Event(k, i, 2 * t + (s == "Left")), 2 * n) for s, (k, i, t), n in sent]
        sent.sort(key=lambda one: (one.now, one.source == "Left"))
    assert not simulated(made, sent).late


def by_key(outputs: Sequence[bytes]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for output in outputs:
        key, said = output.decode().split()
        found[key].append(said)
    return dict(found)


def drive(made: Application, sent: Sequence[Sent], happening: Sequence[Happening]) -> Driven:
    driven, batch, number, before = Driven(made), list[Block](), 0, 0
    sources = [source.name for source in made.sources]
    for message, one in zip(sent, happening, strict=True):
        if one.cut:
            driven.batch([batch])
            batch = []
        if one.cut == 2:
            driven.restart()
        if one.ticks:
            batch.append(tick(number, (before + message.now) // 2))
            number += 1
        source, payload, now = message.for_simulation()
        framed = len(payload).to_bytes(4, "big") + payload
        batch.append(Block(number, 1, sources.index(source), now, framed))
        number, before = number + 1, now
    driven.batch([batch])
    return driven


def kept(driven: Driven) -> int:
    """How many messages the entities hold."""
    (partition,) = driven.program.partitions
    assert partition.windows is not None
    return sum(map(partition.windows.open_windows, driven.state()[partition.name].values()))


HOUR = 3600 * 10**9


@pytest.mark.parametrize("kind", [Kind("asof", True, True, 5), Kind("interval", True, True, 5, 5)])
def test_a_key_is_forgotten_an_hour_after_its_last_message(kind: Kind) -> None:
    made = application(kind)
    sent = [("Left", b"a 1 50", 0), ("Left", b"b 2 50", HOUR // 2)]
    assert simulate(made, sent, until_ns=HOUR - 1).state["join"].keys() == {"a", "b"}
    assert simulate(made, sent, until_ns=HOUR + HOUR // 8).state["join"].keys() == {"b"}
    driven = Driven(made)
    for number, (_, payload, now) in enumerate(sent):
        driven.batch([[Block(number, 1, 0, now, len(payload).to_bytes(4, "big") + payload)]])
    driven.batch([[tick(2, HOUR + HOUR // 8)]])
    driven.restart()
    assert driven.state()["join"].keys() == {"b"}


def test_left_messages_alone_leave_nothing_in_the_state_of_a_table_join() -> None:
    made = application(Kind("table", True, False))
    sent = [("Left", f"{key} 1 0".encode(), 0) for key in "abc"]
    simulation = simulate(made, sent)
    assert simulation.outputs == [b"a 1+", b"b 1+", b"c 1+"]
    assert simulation.state == {"join": {}}


def test_a_right_message_that_deletes_the_one_before_leaves_nothing_in_the_state() -> None:
    made = application(Kind("table", True, by_event=False, deletes=True))
    sent = [("Right", b"a 1 0"), ("Left", b"a 2 0"), ("Right", b"a 3 0"), ("Left", b"a 4 0")]
    simulation = simulate(made, sent)
    assert simulation.outputs == [b"a 2+1", b"a 4+"]
    assert simulation.state == {"join": {}}


@pytest.mark.parametrize("delay", [0, 5])
def test_an_as_of_join_keeps_no_values_of_the_past(delay: int) -> None:
    made = application(Kind("asof", True, True, before=10**9, delay=delay))
    sent = [("Right", f"a {time} {time}".encode(), time) for time in range(100)]
    (entity,) = simulate(made, sent).state["join"].values()
    assert [row.time for row in entity.values] == list(range(99 - delay, 100))
    (entity,) = simulate(made, sent, until_ns=10**9).state["join"].values()
    assert [row.time for row in entity.values] == [99]
    left = ("Left", b"a 1000 99", 99 + delay)
    assert simulate(made, [*sent, left], until_ns=200).outputs == [b"a 1000+99"]


@pytest.mark.parametrize("keeps_left", [False, True])
@pytest.mark.parametrize("kind", ["asof", "interval", "table"])
def test_a_run_waits_for_the_clock_only_as_long_as_it_makes_outputs(
    kind: str, keeps_left: bool
) -> None:
    delay = 0 if kind == "table" else 3
    made = application(Kind(kind, keeps_left, kind != "table", 4, 5, delay))
    driven = Driven(made)

    def send(number: int, source: int, payload: bytes) -> None:
        data = len(payload).to_bytes(4, "big") + payload
        driven.batch([[Block(number, 1, source, 100, data)]])

    send(0, 1, b"a 0 50")
    assert driven.due_ns() is None
    send(1, 0, b"b 1 50")
    waits = kind == "asof" or (kind == "interval" and keeps_left)
    assert driven.due_ns() == ({"asof": 103, "interval": 109}[kind] if waits else None)
    driven.batch([[tick(2, 10_000)]])
    assert driven.due_ns() is None
    assert not kept(driven)


def is_without_ticks(kind: Kind) -> bool:
    """Whether all its outputs come with messages, so that they arrive with them at what follows."""
    return kind.kind == "table" or (kind.kind == "interval" and not kind.keeps_left)


@settings(max_examples=150, deadline=None)
@given(kinds().filter(is_without_ticks), kinds(), happenings)
def test_joins_one_after_the_other_are_as_in_the_simulation(
    first: Kind, second: Kind, happening: list[Happening]
) -> None:
    """The left input of the second are the outputs of the first."""
    left, right = (
        wallaroo.source(name, wallaroo.TCPSourceConfig("", 0, decode)).key_by(key_of)
        for name in ("Left", "Right")
    )
    again = wallaroo.computation(name="again")(as_event)
    joined = left.join(right, join_of(first)).to(again).join(right, join_of(second))
    made = resolve(wallaroo.build_application("Joins", joined.to_sink(sink(1))))
    sent = sent_of(happening)
    simulation = simulated(made, sent)
    driven = drive(made, sent, happening)
    driven.restart()
    driven.batch([[tick(2 * len(sent), END_NS)]])
    assert by_key(driven.outputs[made.sinks[0].name]) == by_key(simulation.outputs)
    assert sum(driven.tally.late.values()) == len(simulation.late)


def as_event(text: str) -> Event:
    key, ids = text.split()
    return Event(key, int(ids.split("+")[0]), 50 + 2 * int(ids.split("+")[0]))
