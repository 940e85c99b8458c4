"""Outputs keep key and timestamp of the record that they come from, and of no other.

A message has the number of its record, which its outputs show, whatever comes between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import wallaroo
from tests.dataflow.harness import Driven, chunks, tick
from wallaroo.connectors.kafka.records import KafkaRecord, unpacked
from wallaroo.connectors.kafka.stored import whole
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate

Message = tuple[str, int]
MS = 1_000_000
PAUSE = wallaroo.nanoseconds(4 * MS)
ALONE = -1
"""Number of outputs that come of no single record."""


def decoded(payload: bytes) -> Message | None:
    letter, number = payload[:1].decode(), int(payload[1:])
    return None if letter == "-" else (letter, number)


def encoded(message: Message) -> str | None:
    return None if message[0] == "n" else str(message[1])


class Entity:
    def __init__(self) -> None:
        self.count = 0


class Window(wallaroo.Aggregation[Message, Entity, Message]):
    def initial_accumulator(self) -> Entity:
        return Entity()

    def update(self, _message: Message, accumulator: Entity) -> None:
        accumulator.count += 1

    def combine(self, one: Entity, other: Entity) -> Entity:
        one.count += other.count
        return one

    def output(self, key: str, _accumulator: Entity) -> Message:
        return (key, ALONE)


@wallaroo.computation(name="some")
def some(message: Message) -> Message | None:
    return message if message[1] % 3 else None


@wallaroo.computation(name="fails")
def fails(message: Message) -> Message:
    if message[1] % 7 == 5:
        raise ValueError(message)
    return message


@wallaroo.computation_multi(name="twice")
def twice(message: Message) -> list[Message]:
    return [message, ("b", message[1])]


@wallaroo.computation_async(name="async")
async def awaited(message: Message) -> Message:
    return message


@wallaroo.computation_batch(name="batch", max=3)
def batched(messages: list[Message]) -> list[Message]:
    return messages


@wallaroo.key_extractor
def letter(message: Message) -> str:
    return message[0]


@wallaroo.key_extractor
def parity(message: Message) -> int:
    return message[1] % 2


@wallaroo.state_computation(name="counted", state=Entity)
def counted(message: Message, entity: Entity) -> Message | None:
    entity.count += 1
    return None if entity.count % 5 == 0 else message


@wallaroo.state_computation_multi(name="repeated", state=Entity)
def repeated(message: Message, _entity: Entity) -> list[Message]:
    return [message, message]


def rung(_name: str, _entity: Entity, _timers: wallaroo.Timers) -> Message:
    return ("t", ALONE)


@wallaroo.state_computation(name="timed", state=Entity, on_timer=rung)
def timed(message: Message, _entity: Entity, timers: wallaroo.Timers) -> Message:
    timers.set_after(wallaroo.nanoseconds(message[1] % 4 * MS), "timer")
    return message


def windows() -> Any:
    """Windows of a step, which must not be shared."""
    return wallaroo.range_windows(PAUSE).over(Window())


def by_event() -> Any:
    windows = wallaroo.range_windows(PAUSE)
    return windows.with_event_time(lambda message: (40 - message[1]) * MS).over(Window())


STEPS = [some, fails, twice, awaited, batched, letter, parity, counted, repeated, timed]
AT_LEAST_KEYED = {counted, repeated, timed}


@st.composite
def applications(draw: st.DrawFn) -> Application:
    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(decoded)
    records = wallaroo.KafkaSourceConfig("in", "a", decoded)
    if draw(st.booleans()):
        repeatable = wallaroo.decoder(header_length=4, length_fmt=">I", repeatable=True)(decoded)
        records = wallaroo.KafkaSourceConfig("in", "a", repeatable)
    pipeline: Any = wallaroo.source("records", records)
    pipeline = through(pipeline, draw(st.lists(st.sampled_from(STEPS), max_size=3)))
    if draw(st.booleans()):
        values = wallaroo.source("values", wallaroo.TCPSourceConfig("", 0, decoder))
        pipeline = pipeline.merge(values)
    ends = []
    for number in range(draw(st.integers(1, 3))):
        branch = through(pipeline, draw(st.lists(st.sampled_from(STEPS), max_size=4)))
        if draw(st.integers(0, 3)) == 0:
            made = draw(st.sampled_from([windows, by_event]))
            branch = branch.key_by(letter).to(made())
            if made is by_event:
                ends.append(through(branch.late(), [counted]).to_sink(sink(f"late {number}")))
            branch = through(branch, draw(st.lists(st.sampled_from(STEPS), max_size=1)))
        ends.append(branch.to_sink(sink(f"sink {number}")))
    return resolve(wallaroo.build_application("random", *ends))


def sink(name: str) -> Any:
    return wallaroo.KafkaSinkConfig("out", "a", encoded).named(name)


def through(pipeline: Any, steps: Sequence[Any]) -> Any:
    """*pipeline* through *steps*, with a key where one is required."""
    for step in steps:
        if step in (letter, parity):
            pipeline = pipeline.key_by(step)
        else:
            pipeline = (pipeline.key_by(letter) if step in AT_LEAST_KEYED else pipeline).to(step)
    return pipeline


def record(number: int, letter: str) -> KafkaRecord:
    """The record *number*, which perhaps has no key or no timestamp."""
    key = None if number % 11 == 3 else b"key %d" % number
    timestamp_ms = None if number % 11 == 4 else 1000 + number
    value = b"%s%d" % (letter.encode(), number)
    return KafkaRecord(value, key, timestamp_ms=timestamp_ms, offset=number, topic="in")


def due(output: KafkaRecord, of_source: dict[int, str], letters: dict[int, str]) -> KafkaRecord:
    """What *output* is to be, by the number that it shows."""
    number = int(output.value or b"")
    if number == ALONE or of_source[number] == "values":
        return KafkaRecord(output.value)
    came_from = record(number, letters[number])
    return KafkaRecord(output.value, came_from.key, timestamp_ms=came_from.timestamp_ms)


@settings(max_examples=150, deadline=None)
@given(applications(), st.data())
def test_every_output_has_key_and_timestamp_of_the_record_that_it_comes_from(
    application: Application, data: st.DataObject
) -> None:
    names = st.sampled_from([source.name for source in application.sources])
    drawn = data.draw(st.lists(st.tuples(names, st.sampled_from("aabc-n")), max_size=30))
    of_source = {number: name for number, (name, _) in enumerate(drawn)}
    letters = {number: letter for number, (_, letter) in enumerate(drawn)}
    sent = []
    for number, (name, letter) in enumerate(drawn):
        came_from = record(number, letter)
        sent.append((name, whole(came_from) if name == "records" else came_from.value or b""))
    cuts = data.draw(st.lists(st.integers(0, 3), min_size=len(sent), max_size=len(sent)))
    driven, now_ns, times = Driven(application), 0, dict[int, int]()
    for batch in chunks(application, sent, cuts):
        now_ns += data.draw(st.integers(0, 2)) * MS
        last = [block for of_task in batch for block in of_task]
        end = last[-1].end if last else 0
        times |= dict.fromkeys(range(last[0].first if last else 0, end), now_ns)
        driven.batch([[block._replace(arrived_ns=now_ns) for block in blocks] for blocks in batch])
        if data.draw(st.booleans()):
            driven.batch([[tick(end, now_ns)]])
    for _ in range(8):  # what timers and windows emit may set timers and open windows
        now_ns += 20 * MS
        driven.batch([[tick(len(sent), now_ns)]])
    simulated = simulate(
        application,
        [(name, payload, times[number]) for number, (name, payload) in enumerate(sent)],
        until_ns=now_ns,
    )
    has_timers = any(partition.timing for partition in application.partitions.values())
    for name in simulated.records:
        found = list(map(unpacked, driven.outputs[name]))
        for outputs in (found, simulated.records[name]):
            assert outputs == [due(output, of_source, letters) for output in outputs]
        if not has_timers:  # else windows depend on when the clock is looked at
            assert Counter(found) == Counter(simulated.records[name])
