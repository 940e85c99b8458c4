"""Timers and expiry: simulation and engine, held against a key that is written out step by step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import wallaroo
from tests.dataflow.harness import Driven, tick
from tests.dataflow.single_bucket import Engine
from wallaroo.gateway.journal.alarm import NEVER
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.testing import Simulation, simulate
from wallaroo.wire.records import Block

MS = 1_000_000
S = 1_000 * MS


class Message(NamedTuple):
    key: str
    event: int
    action: str
    """`s`: set, `c`: cancel, `f`: set and fail, `p`: set to a time that has passed, `-`: nothing"""
    timer: str
    """`r` sets itself again, three times in all; `x` fails; others only speak."""
    after: int

    def payload(self) -> bytes:
        return " ".join(map(str, self)).encode()


class Entity:
    def __init__(self) -> None:
        self.calls = 0


def decoded(payload: bytes) -> Message:
    key, event, action, timer, after = payload.decode().split()
    return Message(key, int(event) * MS, action, timer, int(after) * MS)


def event_of(message: Message) -> int:
    return message.event


def called(name: str, entity: Entity, timers: wallaroo.Timers) -> str | None:
    entity.calls += 1
    if name == "r" and entity.calls % 3:
        timers.set_after(2 * MS, name)
    if name == "x":
        raise ValueError(name)
    return f"{timers.key} !{name} {timers.now // MS} {entity.calls}"


def handled(message: Message, entity: Entity, timers: wallaroo.Timers) -> str:
    entity.calls += 1
    if message.action in "sf":
        timers.set_after(message.after, message.timer)
    elif message.action == "p":
        timers.set_at(timers.now - message.after, message.timer)
    elif message.action == "c":
        timers.cancel(message.timer)
    if message.action == "f":
        raise ValueError(message)
    return f"{message.key} {message.action} {timers.now // MS} {entity.calls}"


def noted(text: str, entity: Entity) -> str:
    entity.calls += 1
    return f"{text} {entity.calls}"


@wallaroo.key_extractor
def key_of(message: Message) -> str:
    return message.key


@wallaroo.key_extractor
def first_of(text: str) -> str:
    return text.split(maxsplit=1)[0]


def application(*, ttl: int | None, by_event: bool) -> Application:
    kept = None if ttl is None else wallaroo.nanoseconds(ttl)
    step = wallaroo.state_computation(
        name="step",
        state=Entity,
        on_timer=called,
        ttl=kept,
        event_time=event_of if by_event else None,
    )(handled)
    # a later level, which also sees the order of outputs, and expires by the times of timers
    after = wallaroo.state_computation(name="after", state=Entity, ttl=kept)(noted)
    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(decoded)
    source = wallaroo.source("in", wallaroo.TCPSourceConfig("127.0.0.1", 0, decoder))
    outputs = source.key_by(key_of).to(step).key_by(first_of).to(after)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str.encode))
    return resolve(wallaroo.build_application("timed", outputs.to_sink(sink)))


class WrittenOut:
    """One key, as docs/state.md has it: its outputs, without what comes after the step."""

    def __init__(self, ttl: int | None, *, by_event: bool) -> None:
        self.ttl, self.by_event = ttl, by_event
        self.said: list[str] = []
        self.failed = self.latest = self.seen = 0
        self._forget()

    def _forget(self) -> None:
        self.calls = 0
        self.time: int | None = None
        self.used = 0
        """The time of the key when a message or a timer used its entity last."""
        self.timers: dict[str, int] = {}

    def silent(self, now: int) -> None:
        if self.time is not None:
            self._until(self.latest + now - self.seen)

    def _until(self, until: int) -> None:
        while self.time is not None:
            if not self.timers:
                if self.ttl is not None and self.used + self.ttl <= until:
                    self._forget()
                return
            name = min(self.timers, key=lambda name: (self.timers[name], name))
            if self.timers[name] > until:
                return
            at = self.timers.pop(name)
            self.time = max(self.time, at)
            self.used = max(self.used, at)
            self._called(name, at)

    def _called(self, name: str, at: int) -> None:
        self.calls += 1
        if name == "r" and self.calls % 3:
            self.timers["r"] = at + 2 * MS
        if name == "x":
            self.failed += 1
        else:
            self.said.append(f"!{name} {at // MS} {self.calls}")

    def take(self, message: Message, now: int) -> None:
        self.silent(now)
        event = message.event if self.by_event else now
        self._until(event)
        if self.time is None or event > self.time:  # else the time keeps advancing with the clock
            self.time = self.latest = event
            self.seen = now
        self.used = max(self.time, self.latest + now - self.seen)
        self.calls += 1
        if message.action in "sf":
            self.timers[message.timer] = self.used + message.after
        elif message.action == "p":
            self.timers[message.timer] = self.used - message.after
        elif message.action == "c":
            self.timers.pop(message.timer, None)
        if message.action == "f":
            self.failed += 1
        else:
            self.said.append(f"{message.action} {self.used // MS} {self.calls}")
        self._until(self.used)


class Happening(NamedTuple):
    pause: int
    message: Message
    cut: int
    """What comes before it: 1 a tick, 2 a block, 3 a batch, 4 a batch and a restart."""


messages = st.builds(
    Message,
    st.sampled_from("abc"),
    st.integers(0, 40),
    st.sampled_from("scfp-s"),
    st.sampled_from("rxy"),
    st.integers(0, 12),
)
happenings = st.lists(
    st.builds(Happening, st.integers(0, 15), messages, st.integers(0, 4)), max_size=25
)
END = 10_000 * MS
TTLS = st.sampled_from([None, 3 * MS, 20 * MS])


def times_of(all_: Sequence[Happening]) -> list[int]:
    now, times = 0, list[int]()
    for happening in all_:
        now += happening.pause * MS
        times.append(now)
    return times


def driven(made: Application, all_: Sequence[Happening]) -> Driven:
    """The engine, with ticks at odd times, and never when one is due."""
    engine, blocks, number = Driven(made), list[list[Block]]([[]]), 0

    def batch() -> None:
        engine.batch(blocks)
        blocks[:] = [[]]

    for (_, message, cut), now in zip(all_, times_of(all_), strict=True):
        if cut == 1:
            blocks[-1].append(tick(number, now))
            number += 1
        elif cut == 2:
            blocks.append([])
        elif cut >= 3:
            batch()
            if cut == 4:
                engine.restart()
        blocks[-1].append(Block(number, 1, 0, now, _framed(message)))
        number += 1
    batch()
    # a timer that was due before the end may set another one: the end is reached in two steps
    for at in (END - 1, END, END + 10**12):
        blocks[-1].append(tick(number, at))
        number += 1
        batch()
    return engine


def by_key(outputs: Sequence[bytes]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for output in outputs:
        key, _, said = output.decode().partition(" ")
        found[key].append(said)
    return found


def simulated(made: Application, all_: Sequence[Happening]) -> Simulation:
    sent = [
        ("in", happening.message.payload(), now)
        for happening, now in zip(all_, times_of(all_), strict=True)
    ]
    return simulate(made, sent, until_ns=END + 10**12)


def _set(pause: int, key: str, after: int = 0, timer: str = "r", action: str = "s") -> Happening:
    return Happening(pause, Message(key, 0, action, timer, after), 0)


A_TIMER_THAT_THE_CLOCK_HAS_PASSED = [
    *(_set(0, "a"), _set(0, "a"), _set(0, "a", 11), _set(0, "b"), _set(12, "a"), _set(3, "b")),
    *(_set(5, "a", 1, "x", "f"), _set(13, "a", 1, "r", "f")),
]
"""The last message is late, and what it sets is due between the time of the key and the clock."""


@settings(max_examples=60, deadline=None)
@example(A_TIMER_THAT_THE_CLOCK_HAS_PASSED, 20 * MS, True)
@given(happenings, TTLS, st.booleans())
def test_a_key_has_the_calls_that_are_written_out_whenever_ticks_and_restarts_come(
    all_: list[Happening], ttl: int | None, by_event: bool
) -> None:
    made = application(ttl=ttl, by_event=by_event)
    written: dict[str, WrittenOut] = defaultdict(lambda: WrittenOut(ttl, by_event=by_event))
    for happening, now in zip(all_, times_of(all_), strict=True):
        message = happening.message
        in_ns = message._replace(event=message.event * MS, after=message.after * MS)
        written[message.key].take(in_ns, now)
    for one in written.values():
        one.silent(END + 10**12)
    expected = {key: one.said for key, one in written.items() if one.said}
    simulation = simulated(made, all_)
    assert _without_after(by_key(simulation.outputs)) == expected
    assert len(simulation.set_aside) == sum(one.failed for one in written.values())
    engine = driven(made, all_)
    assert by_key(engine.outputs["in"]) == by_key(simulation.outputs)
    assert engine.tally.set_aside == len(simulation.set_aside)
    entities = {key: entity.calls for key, entity in engine.state()["step"].items()}
    assert entities == {k: entity.calls for k, entity in simulation.state["step"].items()}
    assert entities.keys() == (written.keys() if ttl is None else set())
    engine.restart()
    assert {k: e.calls for k, e in engine.state()["step"].items()} == entities


EQUAL_TIMES = [Happening(2, Message("a", 7, "-", "x", 0), 0)] * 12
LATE_MESSAGES = [Happening(2, Message("a", 40 - at, "-", "x", 0), 0) for at in range(12)]
A_FAST_CLOCK = [
    Happening(2, Message("a", 4_000 if at == 3 else at, "-", "x", 0), 0) for at in range(12)
]


@pytest.mark.parametrize(
    ("sent", "calls"), [(EQUAL_TIMES, 12), (LATE_MESSAGES, 12), (A_FAST_CLOCK, 9)]
)
def test_an_entity_that_messages_use_does_not_expire_whatever_their_event_times(
    sent: list[Happening], calls: int
) -> None:
    made = application(ttl=3 * MS, by_event=True)
    said = by_key(simulated(made, sent).outputs)["a"]
    assert [int(one.split()[2]) for one in said][-calls:] == list(range(1, calls + 1))
    assert by_key(driven(made, sent).outputs["in"])["a"] == said


def _without_after(said: dict[str, list[str]]) -> dict[str, list[str]]:
    return {key: [one.rpartition(" ")[0] for one in ones] for key, ones in said.items()}


class Spoilt:
    def __init__(self) -> None:
        self.texts: list[Any] = []
        self.me = self


def spoil(name: str, entity: Spoilt, timers: wallaroo.Timers) -> str:
    entity.texts.append(name)
    if name == "spoil":
        entity.texts.append(lambda: None)
    if name == "again":
        timers.set_after(MS, "later")
    return f"{name} {len(entity.texts)}"


@wallaroo.state_computation(name="spoil", state=Spoilt, on_timer=spoil)
def set_passed(name: str, entity: Spoilt, timers: wallaroo.Timers) -> str:
    entity.texts.append("message")
    timers.set_at(0, name)
    return f"message {len(entity.texts)}"


@wallaroo.key_extractor
def one_key(_text: str) -> str:
    return "key"


def test_a_timer_that_leaves_an_entity_that_cannot_be_saved_is_a_dead_letter() -> None:
    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
    source = wallaroo.source("p", wallaroo.TCPSourceConfig("", 0, decoder))
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str.encode))
    spoiling = source.key_by(one_key).to(set_passed).to_sink(sink)
    made = resolve(wallaroo.build_application("spoiling", spoiling))
    sent = ["fine", "spoil", "again"]
    engine = Engine(made)
    engine.batch(sent)
    assert engine.tries == 2
    expected = [b"message 1", b"fine 2", b"message 3", b"message 4", b"again 5"]
    assert engine.outputs == expected
    (letter,) = engine.tally.examples
    assert letter.message == "\"timer 'spoil' of key 'key', due at 0 ns\""
    assert "cannot be saved" in letter.error
    assert engine.state() == {"key": ["message", "fine", "message", "message", "again"]}
    times = engine.read().times
    assert [time.timers for time in times.values()] == [{"later": MS}]
    simulation = simulate(made, [("p", text.encode()) for text in sent])
    assert simulation.outputs == expected
    assert [message for _, _, message, _ in simulation.set_aside] == [
        "timer 'spoil' of key 'key', due at 0 ns"
    ]


@pytest.mark.parametrize(("held", "calls"), [(0, 1), (999 * MS, 2)])
def test_an_entity_does_not_expire_while_its_messages_wait(held: int, calls: int) -> None:
    made = application(ttl=3 * MS, by_event=True)
    engine, message = Driven(made), _framed(Message("a", 7, "-", "x", 0))
    of_source = ((0, held),) if held else ()
    engine.batch([[Block(0, 1, 0, 0, message)]])
    engine.batch([[tick(1, 500 * MS)._replace(held=((0, held // 2),))]])
    engine.batch([[Block(2, 1, 0, 1_000 * MS, message, of_source)]])
    assert by_key(engine.outputs["in"])["a"][-1].startswith("-")
    assert engine.state()["step"]["a"].calls == calls


def test_entities_that_are_older_than_the_time_to_live_expire_after_it() -> None:
    happening = Happening(1, Message("a", 0, "-", "x", 0), 0)
    before, after = (application(ttl=ttl, by_event=False) for ttl in (None, 20 * MS))
    old = driven(before, [happening])
    new = Driven(after)
    new.go_on_from(old)
    start = 10**15
    for number, now in enumerate((start, start + 10 * MS), 100):
        new.batch([[tick(number, now)]])
        assert new.state()["step"].keys() == {"a"}
    new.restart()
    new.batch([[tick(103, start + 20 * MS + 10**9)]])
    assert new.state() == {"step": {}, "after": {}}
    assert new.tally.metrics.expired == {"step": 1, "after": 1}


def test_times_are_saved_as_plain_numbers() -> None:
    day = wallaroo.hours(24)

    def remind(_message: str, _entity: Entity, timers: wallaroo.Timers) -> None:
        timers.set_at(day * 3)
        timers.set_after(day, "after")

    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
    source = wallaroo.source("p", wallaroo.TCPSourceConfig("", 0, decoder)).collect()
    step = wallaroo.state_computation(
        name="remind",
        state=Entity,
        on_timer=lambda _name, _entity, _timers: None,
        event_time=lambda _message: day,
    )(remind)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str.encode))
    engine = Engine(resolve(wallaroo.build_application("days", source.to(step).to_sink(sink))))
    engine.batch(["a"])
    ((_, time),) = engine.read().times.items()
    assert time.timers == {"timer": day * 3, "after": day * 2}
    numbers = [time.watermark, time.latest, *time.timers.values()]
    assert {type(number) for number in numbers} == {int}


class Fragile(Entity):
    is_broken = False

    def __setstate__(self, state: dict[str, int]) -> None:
        if self.is_broken:
            raise ValueError(state)
        vars(self).update(state)


def test_a_timer_of_an_entity_that_cannot_be_loaded_is_a_dead_letter_and_stays_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = wallaroo.state_computation(name="step", state=Fragile, on_timer=called)(handled)
    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(decoded)
    source = wallaroo.source("in", wallaroo.TCPSourceConfig("127.0.0.1", 0, decoder))
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str.encode))
    made = resolve(wallaroo.build_application("f", source.key_by(key_of).to(step).to_sink(sink)))
    engine = Driven(made)
    for number, (name, at) in enumerate([("y", 12), ("z", 14)]):
        message = Message("a", 0, "s", name, at)
        engine.batch([[Block(number, 1, 0, 0, _framed(message))]])
    monkeypatch.setattr(Fragile, "is_broken", True)
    engine.restart()
    engine.batch([[tick(2, 11 * MS)]])
    assert engine.tally.set_aside == 0
    for number, at in enumerate([12, 13, 14, 15], 3):
        engine.batch([[tick(number, at * MS)]])
    letters = engine.tally.examples
    assert [letter.message for letter in letters] == [
        "\"timer 'y' of key 'a', due at 12000000 ns\"",
        "\"timer 'z' of key 'a', due at 14000000 ns\"",
    ]
    assert all("Fragile, cannot be loaded: ValueError" in letter.error for letter in letters)
    monkeypatch.setattr(Fragile, "is_broken", False)
    engine.restart()
    engine.batch([[tick(7, 16 * MS)]])
    assert engine.outputs["in"][2:] == [b"a !y 12 3", b"a !z 14 4"]


def test_a_timer_that_is_due_after_the_year_2262_is_waited_for() -> None:
    engine = Driven(application(ttl=None, by_event=False))
    message = Message("a", 0, "s", "y", 10**16)
    engine.batch([[Block(0, 1, 0, 0, _framed(message))]])
    due_ns = engine.due_ns()
    assert due_ns is not None
    assert due_ns < NEVER


def test_only_timers_that_are_set_may_have_outputs() -> None:
    driven = Driven(application(ttl=20 * MS, by_event=False))

    def due() -> tuple[int | None, int | None]:
        times = [*driven.tally.due.values()], [*driven.tally.expiries.values()]
        timers, expiries = (
            min((at for at in all_ if at is not None), default=None) for all_ in times
        )
        return timers, expiries

    for number, (action, timer_ns, expiry_ns) in enumerate(
        [("-", None, 10**9), ("s", 12 * MS, 10**9), ("-", 12 * MS, 10**9), ("c", None, 10**9)]
    ):
        message = Message("a", 0, action, "y", 12)
        driven.batch([[Block(0, number, 0, 0, _framed(message))]])
        assert due() == (timer_ns, expiry_ns)
        driven.restart()
    driven.batch([[tick(10, MS)]])
    assert due() == (None, 10**9)
    driven.batch([[tick(11, 10**9)]])
    assert driven.state() == {"step": {}, "after": {}}
    assert due() == (None, None)


def test_a_state_that_lost_its_time_to_live_keeps_its_entities() -> None:
    happening = Happening(1, Message("a", 0, "s", "y", 12), 0)
    made = application(ttl=3 * MS, by_event=False)
    chunk = Block(0, 1, 0, 0, _framed(happening.message))
    old = Driven(made)
    old.batch([[chunk]])
    new = Driven(application(ttl=None, by_event=False))
    new.go_on_from(old)
    new.batch([[tick(1, END)]])
    assert new.outputs["in"] == [b"a !y 12 2 2"]
    assert new.state()["step"].keys() == {"a"}


def _framed(message: Message) -> bytes:
    data = message.payload()
    return len(data).to_bytes(4, "big") + data


def test_a_late_message_does_not_set_the_time_of_its_key_back() -> None:
    def beat(name: str, _beats: Entity, timers: wallaroo.Timers) -> str:
        timers.set_after(wallaroo.seconds(60))
        return f"{name} {timers.now // S}"

    @wallaroo.state_computation(
        name="beat", state=Entity, on_timer=beat, event_time=lambda message: int(message) * S
    )
    def start(message: bytes, beats: Entity, timers: wallaroo.Timers) -> str:
        if timers.due() is None:
            timers.set_after(wallaroo.seconds(60))
        return f"message {timers.now // S}"

    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes)
    source = wallaroo.source("in", wallaroo.TCPSourceConfig("127.0.0.1", 0, decoder))
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str.encode))
    keyed = source.key_by(lambda _message: "k").to(start)
    application = resolve(wallaroo.build_application("beats", keyed.to_sink(sink)))
    late = [("in", b"1000", 1000 * S), ("in", b"990", 1310 * S)]
    assert simulate(application, late, until_ns=1370 * S).outputs == [
        b"message 1000",
        *(b"timer %d" % at for at in range(1060, 1301, 60)),
        b"message 1310",
        b"timer 1360",
    ]


@pytest.mark.parametrize("event", [b"1000", b"990"], ids=["equal", "late"])
def test_a_timer_from_now_counts_from_the_last_message_whatever_its_event_time(
    event: bytes,
) -> None:
    @wallaroo.state_computation(
        name="session",
        state=Entity,
        on_timer=lambda _name, session, _timers: f"ended {session.calls}",
        event_time=lambda message: int(message) * S,
    )
    def click(message: bytes, session: Entity, timers: wallaroo.Timers) -> None:
        session.calls += 1
        timers.set_after(wallaroo.seconds(5))

    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes)
    source = wallaroo.source("in", wallaroo.TCPSourceConfig("127.0.0.1", 0, decoder))
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str.encode))
    keyed = source.key_by(lambda _message: "k").to(click)
    application = resolve(wallaroo.build_application("clicks", keyed.to_sink(sink)))
    clicks = [("in", b"1000", 5000 * S), *(("in", event, (5001 + n) * S) for n in range(12))]
    assert simulate(application, clicks, until_ns=5100 * S).outputs == [b"ended 13"]
