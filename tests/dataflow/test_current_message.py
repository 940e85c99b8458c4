"""`now` and `rng` are the same whenever a message is processed, however and wherever.

Messages are a letter, a number, and what every function on their way was given.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wallaroo
from tests.dataflow.harness import Driven, tick
from tests.helpers import framing_of
from tests.history.harness import Recorded
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.journal.blocks import gathered
from wallaroo.history.records import records
from wallaroo.history.rehearsal import Rehearsal
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate
from wallaroo.wire.records import Block

Message = tuple[Any, ...]
MS = 1_000_000
PAUSE = wallaroo.milliseconds(4)


def given_here() -> tuple[int, int]:
    drawn = wallaroo.rng().randrange(1_000)
    millisecond = int(wallaroo.now().timestamp() * 1_000) % 1_000_000
    return millisecond, drawn * 1_000 + wallaroo.rng().randrange(1_000)


def parsed(payload: bytes) -> Message:
    return payload[:1].decode(), int(payload[1:])


def decoded(payload: bytes) -> Message:
    return (*parsed(payload), given_here())


def encoded(message: Message) -> str:
    return repr((message, given_here())) + ";"


class Entity:
    def __init__(self) -> None:
        self.seen = [given_here()]


class Window(wallaroo.Aggregation[Message, Entity, Message]):
    def initial_accumulator(self) -> Entity:
        return Entity()

    def update(self, message: Message, accumulator: Entity) -> None:
        accumulator.seen += [message, given_here()]

    def combine(self, one: Entity, other: Entity) -> Entity:
        one.seen += other.seen
        return one

    def output(self, key: str, accumulator: Entity) -> Message:
        return (key[0], len(accumulator.seen), repr(accumulator.seen), given_here())


@wallaroo.computation(name="some")
def some(message: Message) -> Message | None:
    return (*message, given_here()) if message[1] % 3 else message


@wallaroo.computation(name="fails", retry=wallaroo.retries(1, backoff=0))
def fails(message: Message) -> Message:
    found = given_here()
    if message[1] % 7 == 5:
        raise ValueError(message)
    return (*message, found)


@wallaroo.computation_multi(name="twice")
def twice(message: Message) -> list[Message]:
    return [(*message, given_here()), ("b", *message[1:], given_here())]


@wallaroo.computation_async(name="async", concurrency=3)
async def awaited(message: Message) -> Message:
    for _ in range(message[1] % 4):  # answers overtake each other
        await asyncio.sleep(0)
    return (*message, wallaroo.now().timestamp())


@wallaroo.computation_batch(name="batch", max=3)
def batched(messages: list[Message]) -> list[Message]:
    return messages


@wallaroo.key_extractor
def letter(message: Message) -> str:
    return str(message[0])


@wallaroo.key_extractor
def salted(message: Message) -> str:
    return f"{message[0]}{wallaroo.rng().randrange(3)}"


@wallaroo.state_computation(name="counted", state=Entity)
def counted(message: Message, entity: Entity) -> Message | None:
    entity.seen.append(given_here())
    return None if len(entity.seen) % 5 == 0 else (*message, given_here())


@wallaroo.state_computation_multi(name="repeated", state=Entity)
def repeated(message: Message, entity: Entity) -> list[Message]:
    entity.seen.append(given_here())
    return [(*message, given_here()), message]


def rung(name: str, entity: Entity, timers: wallaroo.Timers) -> Message:
    entity.seen.append(given_here())
    return (timers.key[0], len(entity.seen), given_here())


@wallaroo.state_computation(name="timed", state=Entity, on_timer=rung, ttl=wallaroo.milliseconds(9))
def timed(message: Message, entity: Entity, timers: wallaroo.Timers) -> Message:
    entity.seen.append(given_here())
    timers.set_after(wallaroo.milliseconds(message[1] % 4), "timer")
    return (*message, given_here())


@wallaroo.interval_join("joined", before=PAUSE, after=PAUSE, how="left")
def joined(left: Message, right: Message | None) -> Message:
    return (left[0], left[1], left, right, given_here())


STATELESS: list[Any] = [some, fails, twice, awaited, batched]
STEPS = [*STATELESS, letter, salted, counted, repeated]
AT_LEAST_KEYED = {counted, repeated}


@st.composite
def applications(draw: st.DrawFn, *, clock: bool) -> Application:
    """Random applications; with a *clock*, those with timers, windows or a join.

    No state follows these: what is due at the same time for several keys has no order.
    """
    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(decoded)
    repeatable = wallaroo.decoder(header_length=4, length_fmt=">I", repeatable=True)(parsed)
    sources: list[Any] = [
        wallaroo.source(name, wallaroo.TCPSourceConfig("", 0, draw(st.sampled_from(decoders))))
        for name, decoders in (("first", [decoder, repeatable]), ("second", [decoder]))
    ]
    steps = st.lists(st.sampled_from(STEPS), max_size=3)
    first, second = (through(source, draw(steps)) for source in sources)
    ends, how = (
        [],
        draw(st.sampled_from(["merge", "apart", "join"] if clock else ["merge", "apart"])),
    )
    if how == "merge":
        first = first.merge(second)
    elif how == "join":
        first = first.key_by(letter).join(second.key_by(letter), joined)
    else:
        ends.append(second.to_sink(sink("other")))
    shared = sink("shared") if draw(st.booleans()) else None
    for number in range(draw(st.integers(1, 3))):
        branch = through(first, draw(steps)) if how != "join" else first
        if clock and how != "join":
            step = draw(st.sampled_from([timed, *map(windows, range(3))]))
            branch = branch.key_by(draw(st.sampled_from([letter, salted]))).to(step)
        if clock:
            branch = through(branch, draw(st.lists(st.sampled_from(STATELESS), max_size=2)))
        ends.append(branch.to_sink(shared or sink(f"sink {number}")))
    return resolve(wallaroo.build_application("random", *ends))


def windows(kind: int) -> Any:
    """Windows of a step, which must not be shared."""
    if kind == 0:
        return wallaroo.range_windows(PAUSE).over(Window())
    if kind == 1:
        return wallaroo.session_windows(PAUSE).over(Window())
    return wallaroo.count_windows(2).with_timeout(PAUSE).over(Window())


def sink(name: str) -> Any:
    return wallaroo.TCPSinkConfig("", 0, encoded).named(name)


def through(pipeline: Any, steps: Sequence[Any]) -> Any:
    """*pipeline* through *steps*, with a key where one is required."""
    for step in steps:
        if step in (letter, salted):
            pipeline = pipeline.key_by(step)
        else:
            pipeline = (pipeline.key_by(letter) if step in AT_LEAST_KEYED else pipeline).to(step)
    return pipeline


@st.composite
def logs(draw: st.DrawFn, application: Application, *, clock: bool) -> list[Block]:
    """Messages, and readings of a clock, each in a block of its own.

    Timers and windows have no more precise times than the blocks in which messages are handed out.
    """
    blocks: list[Block] = []
    now_ns = 1_000_000 * MS
    for _ in range(draw(st.integers(1, 20))):
        now_ns += draw(
            st.sampled_from([0, 0, MS, 3 * MS] if clock else [0, 400_000, 900_000, 5 * MS])
        )
        if clock and draw(st.integers(0, 4)) == 0:
            blocks.append(tick(len(blocks), now_ns))
            continue
        source = draw(st.integers(0, len(application.sources) - 1))
        payload = b"%s%d" % (draw(st.sampled_from([b"a", b"b", b"c"])), draw(st.integers(0, 40)))
        data = framing_of(application.sources[source]).frame(payload)
        blocks.append(Block(len(blocks), 1, source, now_ns, data))
    for _ in range(6 if clock else 0):  # what timers and windows emit may set timers, too
        now_ns += 20 * MS
        blocks.append(tick(len(blocks), now_ns))
    return blocks


def run(application: Application, blocks: list[Block], cuts: Sequence[int]) -> Driven:
    """Run *blocks*, cut into chunks where *cuts* say so."""
    driven, chunk = Driven(application), list[Block]()
    for block, cut in zip(blocks, cuts, strict=True):
        if cut and chunk:
            driven.batch([gathered(chunk)])
            chunk = []
            if cut > 1:
                driven.restart()
        chunk.append(block)
    driven.batch([gathered(chunk)])
    return driven


def made(driven: Driven) -> dict[str, Counter[bytes]]:
    return {name: Counter(outputs) for name, outputs in driven.outputs.items()}


def seen(state: dict[str, dict[Any, Any]]) -> dict[str, dict[Any, Any]]:
    return {
        name: {key: getattr(entity, "seen", None) for key, entity in entities.items()}
        for name, entities in state.items()
    }


def cut_twice(
    data: st.DataObject, application: Application, blocks: list[Block]
) -> tuple[Driven, Driven]:
    """Run *blocks* twice, cut into different chunks."""
    cuts = st.lists(st.integers(0, 2), min_size=len(blocks), max_size=len(blocks))
    return run(application, blocks, data.draw(cuts)), run(application, blocks, data.draw(cuts))


@settings(max_examples=250, deadline=None)
@given(applications(clock=False), st.data())
def test_functions_are_given_the_same_however_messages_are_cut_and_in_a_simulation(
    application: Application, data: st.DataObject
) -> None:
    blocks = data.draw(logs(application, clock=False))
    once, again = cut_twice(data, application, blocks)
    framings = [framing_of(source) for source in application.sources]
    simulated = simulate(
        application,
        [
            (application.sources[block.source].name, payload, block.arrived_ns)
            for block in blocks
            for payload in framings[block.source].split(block.data)
        ],
    )
    outputs = {name: Counter(sent) for name, sent in simulated.by_sink.items() if sent}
    assert made(once) == made(again) == outputs
    assert seen(once.state()) == seen(again.state()) == seen(simulated.state)


@settings(max_examples=250, deadline=None)
@given(applications(clock=True), st.data())
def test_timers_windows_and_joins_are_given_the_same_however_messages_are_cut(
    application: Application, data: st.DataObject
) -> None:
    blocks = data.draw(logs(application, clock=True))
    once, again = cut_twice(data, application, blocks)
    assert made(once) == made(again)
    assert seen(once.state()) == seen(again.state())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(applications(clock=True), st.data())
def test_a_rehearsal_makes_the_same_of_the_log(
    application: Application, data: st.DataObject
) -> None:
    names = st.sampled_from([source.name for source in application.sources])
    payloads = st.builds(
        b"%s%d".__mod__, st.tuples(st.sampled_from([b"a", b"b"]), st.integers(0, 40))
    )
    with tempfile.TemporaryDirectory() as directory:
        recorded = Recorded(Path(directory), application)
        for _ in range(data.draw(st.integers(1, 4))):
            sent = data.draw(st.lists(st.tuples(names, payloads), min_size=1, max_size=8))
            recorded.run(sent, chunks=data.draw(st.integers(1, 3)))
            if data.draw(st.booleans()):
                recorded.tick()
        recorded.close()
        rehearsal = Rehearsal.of(application, records(Path(directory) / LOG))
        outputs = {
            name: (of.missing, of.further) for name, of in rehearsal.sinks.items() if of.differs
        }
        assert (outputs, rehearsal.kinds()) == ({}, {})
        assert rehearsal.differing_names() == set()
