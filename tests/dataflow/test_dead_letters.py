"""What a task tells of messages that it sets aside: enough to find them, and to replay them."""

from __future__ import annotations

from typing import Any

import pytest

import wallaroo
from tests.dataflow.harness import Driven, chunks
from tests.helpers import framing_of
from wallaroo.connectors.kafka.stored import whole
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.wire.records import Block, FailedMessage


@wallaroo.decoder(header_length=2, length_fmt=">H")
def decode(payload: bytes) -> str | None:
    text = payload.decode()
    return None if text == "nothing" else text


@wallaroo.computation(name="no b")
def no_b(text: str) -> str | None:
    if text.startswith("b"):
        raise ValueError(text)
    return None if text == "drop" else text


@wallaroo.computation_multi(name="twice")
def twice(text: str) -> list[str]:
    return [text, text.upper()]


class Seen:
    pass


@wallaroo.state_computation(name="no D")
def no_d(text: str, seen: Seen) -> tuple[str, bool]:
    if text.lower().startswith("d"):
        raise ValueError(text)
    return text, True


@wallaroo.partition
def first_letter(text: str) -> str:
    return text[0].lower()


@wallaroo.encoder
def encode(text: str) -> bytes:
    if text.startswith("E"):
        raise ValueError(text)
    return text.encode()


def application(*steps: Any, state: bool = False, keys: str = "") -> Application:
    builder = wallaroo.ApplicationBuilder("letters")
    builder.new_pipeline("p", wallaroo.TCPSourceConfig("", 0, decode))
    for step in steps:
        builder.to(step)
    if state:
        listed = list(keys) or None
        other_keys: Any = "drop" if listed else None
        builder.to_state_partition(no_d, Seen, "seen", first_letter, listed, other_keys)
    builder.to_sink(wallaroo.TCPSinkConfig("", 0, encode))
    return resolve(builder.build())


def letters(made: Application, *payloads: bytes) -> list[FailedMessage]:
    driven = Driven(made)
    sent = [("p", payload) for payload in payloads]
    for batch in chunks(made, sent, [0] * len(sent)):
        driven.batch(batch)
    return driven.tally.letters


def test_what_does_not_decode_has_its_arrival_number() -> None:
    (letter,) = letters(application(), b"a", b"nothing", b"\xff", b"b")
    assert (letter.step, letter.arrival) == ("decoder", 2)


def test_behind_steps_that_drop_and_multiply_the_arrival_number_is_still_known() -> None:
    made = letters(application(no_b, twice), b"nothing", b"drop", b"b1", b"x", b"e", b"b2", b"e")
    assert [(letter.step, letter.arrival) for letter in made] == [
        ("no b", 2),
        ("encoder", 4),
        ("no b", 5),
        ("encoder", 6),
    ]


def test_a_state_computation_tells_key_and_arrival_number() -> None:
    (letter,) = letters(application(state=True), b"a", b"d1", b"c")
    assert (letter.step, letter.key, letter.arrival) == ("no D", "'d'", 1)


def test_behind_stateless_steps_it_tells_key_and_arrival_number() -> None:
    made = letters(application(no_b, twice, state=True), b"nothing", b"drop", b"a", b"d1", b"c")
    assert [(letter.key, letter.arrival, letter.message) for letter in made] == [
        ("'d'", 3, "'d1'"),
        ("'d'", 3, "'D1'"),
    ]


def test_behind_a_state_nothing_is_told_that_could_be_replayed() -> None:
    (letter,) = letters(application(state=True), b"E")
    assert (letter.step, letter.arrival) == ("encoder", None)


@pytest.mark.parametrize("steps", [(), (no_b,)])
def test_a_message_of_unknown_key_is_a_letter(steps: tuple[Any, ...]) -> None:
    (letter,) = letters(application(*steps, state=True, keys="ac"), b"a", b"z", b"c")
    assert letter.error == "its key 'z' is not listed for state 'seen'"
    assert (letter.key, letter.arrival) == ("'z'", 1)


def surrogates(text: str) -> str:
    msg = "half a pair: \ud800"
    raise ValueError(msg)


def test_what_no_database_takes_is_escaped() -> None:
    (letter,) = letters(application(wallaroo.computation(name="surrogates")(surrogates)), b"a")
    assert letter.error == "ValueError: half a pair: \\ud800"
    assert all("".join(map(str, letter)).encode() for _ in letter)


def test_a_record_that_does_not_decode_is_shown_with_its_key_and_its_payload_is_kept() -> None:
    def decode(record: wallaroo.KafkaRecord) -> int:
        return int(record.value or b"")

    config = wallaroo.KafkaSourceConfig("t", "a", decode, envelope=True)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str))
    pipeline = wallaroo.source("in", config).to_sink(sink)
    records = resolve(wallaroo.build_application("records", pipeline))
    record = wallaroo.KafkaRecord(b"x", key=b"k", partition=3, offset=7, topic="t")
    data = framing_of(records.sources[0]).frame(whole(record))
    driven = Driven(records)
    driven.batch([[Block(0, 1, 0, 0, data)]])
    (letter,) = driven.tally.examples
    assert letter.message == repr(record)
