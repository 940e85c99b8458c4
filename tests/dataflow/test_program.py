"""Both stages of a program, held against `wallaroo.testing.simulate` message by message."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wallaroo
from tests.dataflow.harness import Driven, Sent, chunks, drive_all
from tests.helpers import framing_of
from wallaroo.dataflow.buckets import Bucket
from wallaroo.dataflow.decoding import Router
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.results import TaskResults, preview
from wallaroo.dataflow.state_runner import StateRunner
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate
from wallaroo.wire.records import Block, FailedMessage, Tally

Message = tuple[str, int]


class Oddity(Exception):
    pass


@wallaroo.decoder(header_length=2, length_fmt=">H")
def decode(bs: bytes) -> Message | None:
    key, number = bs[:1].decode(), int(bs[1:])  # raises on what is no number
    return None if number == 99 else (key, number)


repeatable = wallaroo.decoder(header_length=2, length_fmt=">H", repeatable=True)(decode.function)


@wallaroo.computation(name="add one")
def add_one(message: Message) -> Message:
    return (message[0], message[1] + 1)


@wallaroo.computation(name="even only")
def even_only(message: Message) -> Message | None:
    return None if message[1] % 2 else message


@wallaroo.computation(name="no fives")
def no_fives(message: Message) -> Message:
    if message[1] % 5 == 0:
        raise Oddity(message)
    return message


@wallaroo.computation(name="leave on seven")
def leave_on_seven(message: Message) -> Message:
    if message[1] % 7 == 0:
        sys.exit("seven")
    return message


@wallaroo.computation_multi(name="twice, now and then")
def twice(message: Message) -> list[Message | None] | None:
    key, number = message
    return None if number % 3 == 0 else [message, None, (key, number + 10)]


@wallaroo.computation_multi(name="one, then perhaps a failure")
def one_then_failure(message: Message) -> Iterator[Message]:
    yield message
    if message[1] % 4 == 1:
        raise Oddity(message)


class Numbers:
    def __init__(self) -> None:
        self.all: list[int] = []


class Stubborn:
    def __init__(self) -> None:
        raise Oddity


@wallaroo.state_computation(name="total")
def total(message: Message, state: Numbers) -> tuple[Message, bool]:
    state.all.append(message[1])
    return ((message[0], sum(state.all)), True)


@wallaroo.state_computation(name="peek")
def peek(message: Message, state: Numbers) -> tuple[Message | None, bool]:
    return ((message[0], len(state.all)) if state.all else None, False)


@wallaroo.state_computation(name="moody")
def moody(message: Message, state: Numbers) -> tuple[None, bool]:
    state.all.append(message[1])
    if message[1] % 4 == 1:
        raise Oddity(message)
    return (None, True)


@wallaroo.state_computation(name="no pair")
def no_pair(message: Message, state: Numbers) -> Any:
    state.all.append(message[1])
    return (message, True) if message[1] % 2 else None


@wallaroo.state_computation_multi(name="history")
def history(message: Message, state: Numbers) -> tuple[Iterable[Message], bool]:
    state.all.append(message[1])
    return ([(message[0], number) for number in state.all], True)


@wallaroo.partition
def letter(message: Message) -> str:
    if message[0] == "d":
        raise Oddity(message)
    return message[0]


@wallaroo.partition
def letter_in_a_tuple(message: Message) -> Any:
    return [message[0]] if message[0] == "d" else (message[0],)


@wallaroo.encoder
def encode(message: Message) -> Any:
    text = f"{message[0]}:{message[1]};"
    kinds = (text, text.encode(), bytearray(text.encode()), None, 7, text, text)
    if message[1] % 11 == 10:
        raise Oddity(message)
    return kinds[message[1] % len(kinds)]


STEPS = [add_one, even_only, no_fives, leave_on_seven, twice, one_then_failure]
STATE_STEPS: list[Any] = [total, peek, moody, no_pair, history]
PARTITIONS: list[tuple[Any, ...]] = [
    (Numbers, "any letter", letter, None),
    (Numbers, "listed letters", letter, ["a", "b"], "drop"),
    (Numbers, "tuples", letter_in_a_tuple, None),
    (Stubborn, "never", letter, None),
]
SINK = wallaroo.TCPSinkConfig("", 0, encode)


@st.composite
def applications(draw: st.DrawFn) -> Application:
    builder = wallaroo.ApplicationBuilder("random")
    sinks: dict[str, wallaroo.TCPSinkConfig[Any]] = {}
    for name in ("one", "two", "three")[: draw(st.integers(1, 3))]:
        decoder = draw(st.sampled_from([decode, repeatable]))
        builder.new_pipeline(name, wallaroo.TCPSourceConfig("", 0, decoder))
        for step in draw(st.lists(st.sampled_from(STEPS), max_size=2)):
            builder.to(step)
        # order is kept per key of one state: pipelines share a sink where they share state
        sink = wallaroo.TCPSinkConfig("", 0, encode)
        if draw(st.integers(0, 3)):
            # the first two partitions more often, so that pipelines share them
            partition = draw(st.sampled_from(PARTITIONS[:2] * 2 + PARTITIONS))
            sink = sinks.setdefault(partition[1], sink)
            builder.to_state_partition(draw(st.sampled_from(STATE_STEPS)), *partition)
            for step in draw(st.lists(st.sampled_from(STEPS), max_size=2)):
                builder.to(step)
        builder.to_sinks([sink] * draw(st.sampled_from([1, 1, 1, 2])))
    return resolve(builder.build())


payloads = st.builds(
    lambda key, number: f"{key}{number}".encode(), st.sampled_from("abcd"), st.integers(0, 40)
) | st.sampled_from([b"", b"a", b"a99", b"\xff1", b"bx"])


@st.composite
def streams(draw: st.DrawFn, application: Application) -> Sent:
    names = st.sampled_from([source.name for source in application.sources])
    return draw(st.lists(st.tuples(names, payloads), max_size=40))


def by_key(outputs: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    grouped = defaultdict(list)
    for output in outputs:
        grouped[output[:1]].append(output)
    return grouped


@pytest.mark.filterwarnings("ignore::wallaroo.testing.UnlistedKeysWarning")
@settings(max_examples=250, deadline=None)
@given(applications(), st.data())
def test_any_split_of_the_messages_gives_what_the_simulation_gives(
    application: Application, data: st.DataObject
) -> None:
    sent = data.draw(streams(application))
    cuts = data.draw(st.lists(st.integers(0, 3), min_size=len(sent), max_size=len(sent)))
    driven = drive_all(application, sent, cuts)
    due = simulate(application, sent)
    for sink in application.sinks:
        assert by_key(driven.outputs[sink.name]) == by_key(due.by_sink[sink.name])
    assert driven.tally.set_aside == len(due.set_aside)
    assert Counter((e.pipeline, e.step, e.message) for e in driven.tally.examples) == Counter(
        (pipeline, step, preview(message)) for pipeline, step, message, _ in due.set_aside
    )
    assert driven.tally.unknown_keys == Counter(
        (partition, repr(key)) for partition, key in due.unknown_keys
    )
    assert _plain(driven.state()) == _plain(due.state)


def _plain(state: dict[str, dict[Any, Any]]) -> dict[str, dict[Any, Any]]:
    return {name: {k: e.all for k, e in of.items()} for name, of in state.items()}


def application_of(
    *steps: Any, state: Any = None, key: Any = letter, sink: Any = encode
) -> Application:
    builder = wallaroo.ApplicationBuilder("app")
    builder.new_pipeline("one", wallaroo.TCPSourceConfig("", 0, decode))
    for step in steps:
        builder.to(step)
    if state is not None:
        builder.to_state_partition(state, Numbers, "numbers", key)
    return resolve(builder.to_sink(wallaroo.TCPSinkConfig("", 0, sink)).build())


def drive(application: Application, *sent: bytes) -> Driven:
    driven = Driven(application)
    messages = [("one", payload) for payload in sent]
    for batch in chunks(application, messages, [0] * len(sent)):
        driven.batch(batch)
    return driven


def test_a_message_set_aside_tells_pipeline_step_line_error_and_message() -> None:
    (example,) = drive(application_of(no_fives), b"a5", b"a6").tally.examples
    line = no_fives.function.__code__.co_firstlineno + 3
    assert (example.pipeline, example.step) == ("one", "no fives")
    assert example.place == f"test_program.py:{line}"
    assert example.error == "Oddity: ('a', 5)"
    assert example.message == "('a', 5)"


def test_an_error_without_a_line_of_user_code_tells_where_the_step_is() -> None:
    upper = wallaroo.computation(name="upper")(str.upper)
    (example,) = drive(application_of(upper), b"a5").tally.examples
    assert example.error.startswith("TypeError")
    assert example.place


def test_few_examples_stand_for_many_messages_set_aside() -> None:
    tally = drive(application_of(no_fives), *[b"a5"] * 1_000).tally
    assert tally.set_aside == 1_000
    assert len(tally.examples) == Tally.MAX_EXAMPLES
    assert list(tally.failures.values()) == [1_000]


def test_failures_are_counted_by_their_place_and_none_lacks_an_example() -> None:
    tally, other = Tally(), Tally()
    for place, count in (("a.py:1", 30), ("a.py:2", 5)):
        for one in (tally, other):
            for _ in range(count):
                one.add_set_aside(set_aside(place=place))
    other.add_set_aside(set_aside(place="a.py:3"))
    tally.merge(Tally.from_json(other.to_json()))
    counts = {place: count for (_, _, place, _), count in tally.failures.items()}
    assert counts == {"a.py:1": 60, "a.py:2": 10, "a.py:3": 1}
    places = Counter(example.place for example in tally.examples)
    assert places == {"a.py:1": Tally.MAX_EXAMPLES, "a.py:2": 1, "a.py:3": 1}


def test_exceptions_of_two_classes_in_one_line_are_two_kinds_of_failures() -> None:
    tally = Tally()
    for error in ("KeyError: 'a'", "ValueError", "KeyError: 'b'", "KeyError: 'c'"):
        tally.add_set_aside(set_aside(error=error))
    failures = Tally.from_json(tally.to_json()).failures
    assert {kind[-1]: count for kind, count in failures.items()} == {"KeyError": 3, "ValueError": 1}


def test_kinds_of_failures_beyond_a_limit_are_counted_in_the_sum_only() -> None:
    tally = Tally()
    for line in range(Tally.MAX_FAILURES + 10):
        tally.add_set_aside(set_aside(place=f"a.py:{line}"))
    assert tally.set_aside == Tally.MAX_FAILURES + 10
    assert len(tally.failures) == len(tally.examples) == Tally.MAX_FAILURES


def test_a_message_whose_repr_raises_is_set_aside_all_the_same() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise Oddity

    shy: Any = wallaroo.computation(name="shy")(lambda _: Shy())
    driven = drive(application_of(shy), b"a1")
    assert driven.tally.set_aside == 1
    assert "Shy whose __repr__ raises" in driven.tally.examples[0].message


def test_a_key_that_cannot_be_hashed_sets_its_message_aside() -> None:
    builder = wallaroo.ApplicationBuilder("app")
    builder.new_pipeline("one", wallaroo.TCPSourceConfig("", 0, decode))
    builder.to_state_partition(total, Numbers, "numbers", letter_in_a_tuple).to_sink(SINK)
    application = resolve(builder.build())
    driven, due = drive(application, b"d1", b"a2"), simulate(application, [("one", b"d1")])
    assert [example.step for example in driven.tally.examples] == ["key of total"]
    assert [step for _, step, _, _ in due.set_aside] == ["key of total"]


def test_text_that_is_no_utf_8_is_set_aside_by_the_encoder() -> None:
    surrogate: Any = wallaroo.encoder(lambda message: "\ud800" if message[1] == 1 else "fine")
    driven = drive(application_of(sink=surrogate), b"a1", b"a2")
    assert driven.outputs["one"] == [b"fine"]
    assert [example.step for example in driven.tally.examples] == ["encoder"]


def test_encoders_of_one_pipeline_are_steps_of_their_own() -> None:
    slow: Any = wallaroo.encoder(lambda message: message[0] * (1 // message[1]))
    builder = wallaroo.ApplicationBuilder("app")
    builder.new_pipeline("one", wallaroo.TCPSourceConfig("", 0, decode))
    builder.to_sinks([SINK, wallaroo.TCPSinkConfig("", 0, slow).named("slow")])
    application = resolve(builder.build())
    driven, due = drive(application, b"a1", b"a0"), simulate(application, [("one", b"a0")])
    steps = driven.tally.metrics.steps
    counts = {step: one.left for (_, step), one in steps.items() if step.startswith("encoder")}
    assert counts == {"encoder of one": 2, "encoder of slow": 1}
    assert [example.step for example in driven.tally.examples] == ["encoder of slow"]
    assert [step for _, step, _, _ in due.set_aside] == ["encoder of slow"]


def test_steps_whose_messages_alternate_are_timed_all_the_same() -> None:
    builder = wallaroo.ApplicationBuilder("app")
    for name in ("one", "two"):
        builder.new_pipeline(name, wallaroo.TCPSourceConfig("", 0, decode)).to(add_one)
        builder.to_state_partition(total, Numbers, "numbers", letter).to_sink(SINK)
    sent = [("one", b"a1"), ("two", b"a1")] * 40
    steps = drive_all(resolve(builder.build()), sent, [0] * len(sent)).tally.metrics.steps
    assert [name for name, metrics in steps.items() if not metrics.timed] == []


def test_the_dead_letter_of_an_encoder_that_returns_no_bytes_has_the_message() -> None:
    length: Any = wallaroo.encoder(len)
    (letter,) = drive(application_of(sink=length), b"a1").tally.letters
    assert letter.error == "TypeError: the encoder returned 2 (int); expected bytes or a str"
    assert letter.message == "('a', 1)"


def test_a_message_that_does_not_pickle_is_set_aside_and_the_stream_goes_on() -> None:
    lambdas: Any = wallaroo.computation(name="lambda")(
        lambda m: (m[0], m[1]) if m[1] != 5 else (m[0], lambda: 0)
    )
    driven = drive(application_of(lambdas, state=total), b"a5", b"a6")
    assert driven.tally.set_aside == 1
    assert driven.outputs["one"] == [b"a:6;"]


def test_only_entities_that_were_saved_count_as_changed() -> None:
    program = Program(application_of(state=peek), 1)
    results = TaskResults()
    frames = framing_of(program.application.sources[0]).frame(b"a1")
    (packed,) = Router(program, results).route([Block(0, 1, 0, 0, frames)])
    assert not StateRunner(program, results).run([packed.blob], 0, Bucket([{"a": Numbers()}]))


def test_an_entity_counts_as_changed_when_its_computation_raises() -> None:
    program = Program(application_of(state=moody), 1)
    results = TaskResults()
    frames = framing_of(program.application.sources[0]).frame(b"a1")
    (packed,) = Router(program, results).route([Block(0, 1, 0, 0, frames)])
    (changed,) = StateRunner(program, results).run([packed.blob], 0, Bucket([{}])).changed
    assert changed["a"].all == [1]


def test_a_task_joins_its_outputs_before_there_are_many() -> None:
    results = TaskResults()
    for _ in range(20):
        results.adder(0)(bytes(1024 * 1024))
        results.settle()
    joined = [len(one.data) for one in results.take()[0]]
    assert sum(joined) == 20 * 1024 * 1024
    assert max(joined) <= TaskResults.JOINED_BYTES
    assert results.take()[0] == []


def set_aside(key: str | None = None, place: str = "f.py:1", error: str = "E: x") -> FailedMessage:
    return FailedMessage("p", "s", place, error, "'m'", key)


def test_unknown_keys_are_counted_one_by_one_only_while_they_are_few() -> None:
    tally = Tally()
    for number in range(Tally.MAX_UNKNOWN_KEYS + 50):
        for _ in range(2):
            tally.add_unknown_key("numbers", set_aside(key=repr(number)))
    assert len(tally.unknown_keys) == Tally.MAX_UNKNOWN_KEYS + 1
    assert tally.unknown_keys["numbers", "…"] == 100
    assert len(tally.letters) == 2 * (Tally.MAX_UNKNOWN_KEYS + 50)
    other = Tally()
    other.add_unknown_key("numbers", set_aside(key="'another'"))
    tally.merge(other)
    assert len(tally.unknown_keys) == Tally.MAX_UNKNOWN_KEYS + 1
    assert tally.unknown_keys["numbers", "…"] == 101


def test_a_tally_comes_back_from_json_as_it_was() -> None:
    tally = drive(application_of(no_fives), b"a5", b"zz").tally
    tally.add_unknown_key("numbers", set_aside(key="('a', 1)"))
    tally.add_late("one", "Sum")
    tally.due[1, 2] = 3
    tally.expiries[1, 3] = None
    assert Tally.from_json(tally.to_json()) == tally


def test_a_key_that_does_not_pickle_sets_its_messages_aside() -> None:
    class Local:
        """A key that is hashable, and that no other process can know."""

    unknown: Any = wallaroo.partition(lambda m: Local() if m[1] == 5 else m[0])
    driven = drive(application_of(state=total, key=unknown), b"a5", b"a6")
    assert driven.tally.set_aside == 1
    assert driven.outputs["one"] == [b"a:6;"]
