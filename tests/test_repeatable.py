"""Decoders that are declared repeatable: what crosses to states, and how the promise is checked."""

from __future__ import annotations

import enum
import itertools
import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from google.protobuf.timestamp_pb2 import Timestamp

import wallaroo
from tests.dataflow.harness import drive_all
from wallaroo.cli.main import main
from wallaroo.codecs import json_decoder, msgpack_decoder, protobuf_decoder
from wallaroo.dataflow.program import Program
from wallaroo.errors import ApplicationError
from wallaroo.model.application import Application, Serialization
from wallaroo.resolution.application import resolve
from wallaroo.testing import load, simulate

ROOT = Path(__file__).parents[1]


class Reading(NamedTuple):
    room: str
    degrees: float


class Readings:
    def __init__(self) -> None:
        self.all: list[Any] = []


@wallaroo.state_computation(name="add", state=Readings)
def add(message: Any, readings: Readings) -> str:
    readings.all.append(message)
    return f"{len(readings.all)}"


def declared(function: Callable[[bytes], Any]) -> Any:
    return wallaroo.decoder(header_length=4, length_fmt=">I", repeatable=True)(function)


def application_of(decoder: Any, key: Callable[[Any], Any] = lambda _: "key", *steps: Any) -> Any:
    stream = wallaroo.source("in", wallaroo.TCPSourceConfig("", 0, decoder))
    for step in steps:
        stream = stream.to(step)
    sink = wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str.encode))
    return resolve(wallaroo.build_application("app", stream.key_by(key).to(add).to_sink(sink)))


def reading(payload: bytes) -> Reading:
    room, degrees = payload.decode().split()
    return Reading(room, float(degrees))


class OfClasses:
    repeatable = True

    def header_length(self) -> int:
        return 4

    def payload_length(self, header: bytes) -> int:
        return int.from_bytes(header, "big")

    def decode(self, payload: bytes) -> Reading:
        return reading(payload)


@wallaroo.computation(name="hotter")
def hotter(one: Reading) -> Reading:
    return one._replace(degrees=one.degrees + 1)


def payloads_cross(application: Application) -> bool:
    return bool(Program(application, 8).repeated)


@pytest.mark.parametrize(
    "decoder",
    [
        declared(reading),
        OfClasses(),
        json_decoder(repeatable=True),
        msgpack_decoder(repeatable=True),
        protobuf_decoder(Timestamp, repeatable=True),
    ],
    ids=["decorated", "of classes", "JSON", "MessagePack", "Protobuf"],
)
def test_payloads_cross_to_the_state_that_follows_a_repeatable_decoder(decoder: Any) -> None:
    assert payloads_cross(application_of(decoder))


def test_messages_cross_if_nothing_is_declared() -> None:
    assert not payloads_cross(application_of(wallaroo.decoder(4, ">I")(reading)))
    assert not payloads_cross(application_of(json_decoder()))


def test_messages_cross_after_a_step() -> None:
    assert not payloads_cross(application_of(declared(reading), lambda one: one.room, hotter))


def test_messages_cross_if_the_application_serializes_them() -> None:
    application = application_of(declared(reading))
    own = Serialization(lambda message: message, lambda message: message)
    assert not payloads_cross(replace(application, serialization=own))


def test_payloads_of_market_spread_cross() -> None:
    assert payloads_cross(load(ROOT / "apps" / "market_spread"))


def test_a_state_gets_the_message_that_is_decoded_again() -> None:
    application = application_of(declared(reading), lambda one: one.room)
    sent = [("in", b"hall 20"), ("in", b"attic 31"), ("in", b"hall nan"), ("in", b"none")]
    driven = drive_all(application, sent, [0, 1, 2, 3])
    assert {key: repr(of.all) for key, of in driven.state()["add"].items()} == {
        "hall": "[Reading(room='hall', degrees=20.0), Reading(room='hall', degrees=nan)]",
        "attic": "[Reading(room='attic', degrees=31.0)]",
    }
    assert [example.step for example in driven.tally.examples] == ["decoder"]


class Level(enum.Enum):
    LOW = "low"


def of_a_class(payload: bytes) -> Any:
    return SimpleNamespace(text=payload.decode(), number=float("nan"))


@pytest.mark.parametrize(
    "decode",
    [reading, json.loads, of_a_class, lru_cache(reading), lambda _: Level.LOW, lambda _: None],
    ids=["tuples", "dictionaries", "objects", "kept tuples", "members", "nothing"],
)
def test_what_keeps_the_promise_is_simulated(decode: Any) -> None:
    payload = b'{"a": [1, NaN]}' if decode is json.loads else b"hall 20"
    result = simulate(application_of(declared(decode)), [("in", payload)])
    assert not result.set_aside


def test_a_payload_that_cannot_be_decoded_is_a_dead_letter() -> None:
    result = simulate(application_of(declared(reading)), [("in", b"none")])
    assert [step for _, step, _, _ in result.set_aside] == ["decoder"]


numbers = itertools.count()


def counting(payload: bytes) -> dict[str, Any]:
    return {"text": payload, "number": next(numbers)}


def drawing(_payload: bytes) -> Reading:
    return Reading("hall", random.random())


def of_two_classes(_payload: bytes) -> Any:
    return 1 if next(numbers) % 2 else 1.0


def of_more(_payload: bytes) -> Any:
    return {f"field {number}": 0 for number in range(next(numbers))}


SHARED: list[int] = []


def shared(_payload: bytes) -> list[int]:
    return SHARED


def sharing(payload: bytes) -> dict[str, Any]:
    return {"text": payload, "seen": (SHARED,)}


first = iter(["first"])


def once(_payload: bytes) -> str:
    return next(first)


@pytest.mark.parametrize(
    ("decode", "problem"),
    [
        (counting, "two calls return different messages for the payload b'hall': ['number'] is "),
        (drawing, "two calls return different messages for the payload b'hall': .degrees is 0."),
        (of_two_classes, "an object of class "),
        (of_more, " is missing, then 0"),
        (shared, "two calls return the same object for the payload b'hall'"),
        (sharing, "two calls return messages that share [] for the payload b'hall'"),
        (once, "the second call raises StopIteration for the payload b'hall'"),
    ],
)
def test_a_decoder_that_breaks_the_promise_is_told_with_what_differs(
    decode: Any, problem: str
) -> None:
    with pytest.raises(ApplicationError) as raised:
        simulate(application_of(declared(decode)), [("in", b"hall")])
    line = decode.__code__.co_firstlineno
    where = f"test_repeatable.py:{line}: pipeline 'in': decoder {decode.__name__}: "
    assert where in str(raised.value)
    assert problem in str(raised.value)
    assert str(raised.value).endswith("or leave out repeatable=True")


def popping(one: Any) -> Any:
    return one.pop("room")


def test_a_key_extractor_that_changes_messages_is_told_with_what_it_changes() -> None:
    application = application_of(json_decoder(repeatable=True), popping)
    with pytest.raises(ApplicationError) as raised:
        simulate(application, [("in", b'{"room": "hall"}')])
    line = popping.__code__.co_firstlineno
    where = f"test_repeatable.py:{line}: pipeline 'in': key of add: it changes the message {{"
    assert where in str(raised.value)
    assert "'hall'}: ['room'] is 'hall', then missing" in str(raised.value)


def test_a_key_extractor_may_change_messages_if_nothing_is_declared() -> None:
    application = application_of(json_decoder(), lambda one: one.pop("room"))
    result = simulate(application, [("in", b'{"room": "hall"}')])
    assert result.state["add"]["hall"].all == [{}]


APPLICATION = """
import time, wallaroo
from pathlib import Path

@wallaroo.decoder(header_length=4, length_fmt=">I", repeatable=True)
def stamped(line):
    return line.decode(), time.time_ns()

class Lines:
    pass

@wallaroo.state_computation(name="keep", state=Lines)
def keep(message, lines):
    return None

def application_setup(args):
    file = Path(__file__).with_name("lines.txt")
    source = wallaroo.FileSourceConfig(file, stamped, framing="lines")
    lines = wallaroo.source("Lines", source).key_by(lambda message: message[0]).to(keep)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str))
    return wallaroo.build_application("lines", lines.to_sink(sink))
"""


def test_check_decodes_the_first_messages_of_files_twice(tmp_path: Path) -> None:
    file = tmp_path / "stamping.py"
    file.write_text(APPLICATION)
    without = CliRunner().invoke(main, ["check", str(file)])
    assert without.exit_code == 0  # there are no messages to check with
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    result = CliRunner().invoke(main, ["check", str(file)])
    assert result.exit_code == 1
    assert "stamping.py:5: pipeline 'Lines': decoder stamped: two calls" in result.output
    assert "[1] is " in result.output
