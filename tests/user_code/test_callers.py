"""Whatever function of an application runs, its time is limited and its step is known.

Both are read off the stack, by marks on the functions that call the application's: these tests fail
where such a function has lost its mark, or another one has come to call the application's.
"""

from __future__ import annotations

import asyncio
import dataclasses
import pickle
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import wallaroo
from tests.dataflow.harness import Driven, chunks, tick
from wallaroo.connectors.kafka.records import KafkaRecord
from wallaroo.connectors.kafka.stored import whole
from wallaroo.dataflow.guards import guarded as guarded_application
from wallaroo.dataflow.isolated_calls import Calls as CountedCalls
from wallaroo.model.application import Application, Serialization
from wallaroo.resolution.application import resolve
from wallaroo.user_code.callers import RunningStep, call_at, running_step, runs_step

HOUR = wallaroo.hours(1)
FUNCTIONS: list[str] = []
"""Names of the application's functions, as they are defined."""


class Call(NamedTuple):
    """How a function was called."""

    limited: bool
    running: RunningStep | None


Calls = set[Call]
calls: dict[str, Calls] = defaultdict(set)
"""By function."""


def looks(function: Callable[..., Any]) -> Callable[..., Any]:
    """*function*, which notes by `look` how it is called."""
    FUNCTIONS.append(function.__qualname__)
    return function


def look() -> None:
    frame = sys._getframe(1)
    calls[frame.f_code.co_qualname].add(Call(call_at(frame) is not None, running_step(frame)))


class Message:
    """Pickles in its own way, so that it does so wherever it is sent; `x…` does not load."""

    def __init__(self, text: str) -> None:
        self.text = text

    @looks
    def __repr__(self) -> str:
        look()
        return self.text

    @looks
    def __getstate__(self) -> str:
        look()
        return self.text

    @looks
    def __setstate__(self, text: str) -> None:
        look()
        if text.startswith("x"):
            raise ValueError(text)
        self.text = text


class Name(str):
    """A key that pickles in its own way."""

    __slots__ = ()

    @looks
    def __reduce__(self) -> Any:
        look()
        return name, (str(self),)


@looks
def name(text: str) -> Name:
    look()
    return Name(text)


@wallaroo.decoder(header_length=2, length_fmt=">H")
@looks
def decode(payload: bytes) -> Message:
    look()
    return Message(payload.decode())


@wallaroo.computation(name="called")
@looks
def called_by_compute(message: Message) -> Message:
    look()
    return message


@wallaroo.computation(name="compute")
@looks
def compute(message: Message) -> Message:
    look()
    called_by_compute(message)
    if message.text == "fails":
        raise ValueError(message.text)
    return message


@wallaroo.computation_multi(name="generate")
@looks
def generate(message: Message) -> Iterator[Message]:
    look()
    yield message


@wallaroo.computation_async(name="ask")
@looks
async def ask(message: Message) -> Message:
    look()
    await asyncio.sleep(0)
    look()
    return await asyncio.create_task(answer(message))


@looks
async def answer(message: Message) -> Message:
    look()
    return message


@wallaroo.computation_batch(name="score", retry=wallaroo.retries(1))
@looks
def score(messages: list[Message]) -> list[Message]:
    look()
    return messages


@wallaroo.key_extractor
@looks
def key(message: Message) -> Any:
    look()
    return ["no key"] if message.text == "keyless" else Name(message.text[0])


class Entity:
    @looks
    def __init__(self) -> None:
        look()


@wallaroo.state_computation(name="state", state=Entity)
@looks
def compute_state(message: Message, entity: Entity) -> Message:
    look()
    return message


@wallaroo.state_computation(name="after", state=Entity)
@looks
def compute_after(message: Message, entity: Entity) -> Message:
    look()
    return message


@wallaroo.state_computation_multi(name="states", state=Entity)
@looks
def generate_state(message: Message, entity: Entity) -> Iterator[Message]:
    look()
    yield message


@looks
def event_time(message: Message) -> int:
    look()
    return HOUR * int(message.text[1:])


class Gather(wallaroo.Aggregation[Message, list[str], Message]):
    @looks
    def initial_accumulator(self) -> list[str]:
        look()
        return []

    @looks
    def update(self, message: Message, accumulator: list[str]) -> None:
        look()
        accumulator.append(message.text)

    @looks
    def combine(self, one: list[str], other: list[str]) -> list[str]:
        look()
        return one + other

    @looks
    def output(self, _key: Any, accumulator: list[str]) -> Message:
        look()
        return Message(accumulator[0])


@wallaroo.encoder
@looks
def encode(message: Message) -> str:
    look()
    return message.text


def pipeline(name: str) -> wallaroo.Pipeline[Any]:
    return wallaroo.source(name, wallaroo.TCPSourceConfig("", 0, decode))


def application() -> Application:
    """All functions of an application there are, on all ways that a message may go."""
    sink = wallaroo.TCPSinkConfig("", 0, encode)
    windows = wallaroo.range_windows(HOUR).with_slide(HOUR // 2).with_event_time(event_time)
    direct = pipeline("direct").key_by(key).to(compute_state).to(compute)
    behind = pipeline("behind").key_by(key).to(compute).to(generate).key_by(key).to(generate_state)
    behind = behind.to(compute_after)
    behind = behind.key_by(key).to(windows.over(Gather))
    behind = behind.key_by(key).to(wallaroo.count_windows(1).over(Gather)).to(ask).to(score)
    return resolve(wallaroo.build_application("Called", direct.merge(behind).to_sink(sink)))


def listed() -> Application:
    """One of a state that lists its keys."""
    builder = wallaroo.ApplicationBuilder("Listed")
    builder.new_pipeline("listed", wallaroo.TCPSourceConfig("", 0, decode))
    builder.to(compute)
    builder.to_state_partition(compute_state, Entity, "listed", key, ["a"], other_keys="drop")
    builder.to_sink(wallaroo.TCPSinkConfig("", 0, encode))
    return resolve(builder.build())


def guarded() -> Application:
    """The same, as it is run to find a message that ends its process."""
    counted = CountedCalls({})
    return guarded_application(
        application(), counted.guard, guard_gathering=counted.guard_gathering
    )


@looks
def serialize(thing: Any) -> bytes:
    look()
    return pickle.dumps(thing)


@looks
def deserialize(data: bytes) -> Any:
    look()
    return pickle.loads(data)


def serialized() -> Application:
    """The same, with its own serialization."""
    return dataclasses.replace(application(), serialization=Serialization(serialize, deserialize))


STATE, STATES, WINDOWS = ("direct", "state"), ("behind", "states"), ("behind", "Gather")
AFTER, KEY_BY = ("behind", "after"), ("behind", "key_by key")
ALSO_TO_SAVE = {"serialize", "deserialize", "Name.__reduce__", "name"}
"""Functions that also run where entities are saved, after all messages."""
SPEAKERS = {
    "decode": {STATE, ("behind", "decoder")},  # at once before a state, it counts to that
    "key": {STATE, STATES, WINDOWS, KEY_BY},
    "compute": {("direct", "compute"), ("behind", "compute")},
    "called_by_compute": {("direct", "compute"), ("behind", "compute")},
    "generate": {("behind", "generate")},
    "Message.__repr__": {("direct", "compute"), ("direct", "key of state"), KEY_BY}
    | {("behind", "compute")},
    "Entity.__init__": {STATE, STATES, AFTER},
    "compute_state": {STATE},
    "compute_after": {AFTER},
    "generate_state": {STATES},
    "ask": {("behind", "ask")},
    "answer": {("behind", "ask")},
    "score": {("behind", "score")},
    "event_time": {WINDOWS},
    "Gather.initial_accumulator": {WINDOWS},
    "Gather.update": {WINDOWS},
    "Gather.combine": {WINDOWS},
    "Gather.output": {WINDOWS},
    "encode": {("direct", "encoder"), ("behind", "encoder")},
}
"""By function, the pipelines and steps that it belongs to."""


@pytest.fixture(params=[application, guarded, serialized])
def called(request: pytest.FixtureRequest) -> Iterator[dict[str, Calls]]:
    """How the functions of the application were called: by their names."""
    made: Application = request.param()
    texts = (b"a0", b"a1", b"b9", b"x9", b"fails", b"keyless")
    sent = [(name, text) for text in texts for name in ("direct", "behind")]
    run(made, sent)
    yield dict(calls)
    calls.clear()


def run(made: Application, sent: list[tuple[str, bytes]]) -> None:
    driven = Driven(made)
    for batch in chunks(made, sent, [0 if place else 3 for place in range(len(sent))]):
        driven.batch(batch)
    driven.batch([[tick(len(sent), int(100 * HOUR))]])


def test_the_time_of_each_function_is_limited(called: dict[str, Calls]) -> None:
    assert set(called) | {"serialize", "deserialize"} == set(FUNCTIONS)
    for name, how in called.items():
        limited = {call.limited for call in how}
        if name == "Message.__repr__":  # to report a message is no reason to set it aside
            assert limited == {False}
        else:
            assert limited == {True} or (True in limited and name in ALSO_TO_SAVE), name


def test_each_function_speaks_for_its_step(called: dict[str, Calls]) -> None:
    spoke = {name: {call.running for call in how} for name, how in called.items()}
    assert {name: spoke[name] for name in SPEAKERS} == SPEAKERS
    assert AFTER in spoke.get("deserialize", spoke["Message.__setstate__"])  # a copy for it
    assert WINDOWS in spoke.get("deserialize", {WINDOWS})


@pytest.mark.parametrize("loads", ["Message.__setstate__", "deserialize"])
def test_a_message_whose_key_is_not_listed_speaks_for_the_step_that_lists_them(loads: str) -> None:
    made = listed()
    if loads == "deserialize":
        serialization = Serialization(serialize, deserialize)
        made = dataclasses.replace(made, serialization=serialization)
    run(made, [("listed", b"b0")])
    for name in ("key", loads):
        assert calls[name] == {Call(limited=True, running=RunningStep("listed", "state"))}
    assert {call.running for call in calls["Message.__repr__"]} == {("listed", "state")}
    calls.clear()


@pytest.mark.parametrize("envelope", [False, True])
def test_the_time_of_the_decoder_and_the_encoder_of_a_topic_is_limited(envelope: bool) -> None:
    limited: list[bool] = []

    def note(_: Any) -> bytes:
        limited.append(call_at(sys._getframe()) is not None)
        return b"noted"

    source = wallaroo.KafkaSourceConfig("t", "broker", note, envelope=envelope)
    sink = wallaroo.KafkaSinkConfig("t", "broker", note)
    topic = wallaroo.source("topic", source).to_sink(sink)
    run(resolve(wallaroo.build_application("Topics", topic)), [("topic", whole(KafkaRecord(b"")))])
    assert limited == [True, True]


@pytest.mark.parametrize("names", [("elsewhere",), ("owner", "elsewhere")])
def test_a_mark_that_names_a_variable_which_is_not_there_is_refused(names: Any) -> None:
    with pytest.raises(TypeError, match=r"has no variables .*'elsewhere'"):

        @runs_step(*names)
        def failed(owner: Any) -> Any:
            return owner
