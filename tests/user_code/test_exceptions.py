"""Whatever user code raises concerns one message, in the engine and simulated; Ctrl-C does not."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from typing import Any

import pytest

import wallaroo
from tests.dataflow.harness import chunks
from wallaroo.dataflow.buckets import Bucket
from wallaroo.dataflow.decoding import Router
from wallaroo.dataflow.isolation import run_isolated
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.results import TaskResults
from wallaroo.dataflow.state_runner import StateRunner
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate


class Interrupted(KeyboardInterrupt):
    """Not what Ctrl-C raises."""


class Odd(BaseException):
    pass


class Silent(Exception):
    def __str__(self) -> str:
        raise Odd


class Opaque:
    """Neither pickles nor shows itself."""

    def __reduce__(self) -> Any:
        raise Odd

    def __repr__(self) -> str:
        raise Odd

    def __str__(self) -> str:
        return "opaque"


ODD = {
    kind.__name__: kind for kind in (Interrupted, Odd, SystemExit, asyncio.CancelledError, Silent)
}
WHERE = ["decode", "compute", "several", "key", "note", "update", "output", "encode"]


def asked(where: str, message: object) -> None:
    """Raise what *message* asks for *where* it asks for it."""
    place, _, kind = str(message).partition(" ")
    if place == where:
        raise ODD[kind]


@wallaroo.decoder(header_length=2, length_fmt=">H")
def decode(payload: bytes) -> str:
    asked("decode", payload.decode())
    return payload.decode()


@wallaroo.computation(name="compute")
def compute(text: str) -> Any:
    asked("compute", text)
    return Opaque() if text == "opaque" else text


@wallaroo.computation_multi(name="several")
def several(text: str) -> Iterator[str]:
    yield text
    asked("several", text)


def key(text: object) -> str:
    asked("key", text)
    return str(text)


class Seen:
    def __init__(self) -> None:
        self.texts: list[str] = []


@wallaroo.state_computation_multi(name="note", state=Seen)
def note(text: str, state: Seen) -> Iterator[str]:
    yield text
    asked("note", text)
    state.texts.append(text)


class Gathered(wallaroo.Aggregation[str, list[str], str]):
    def initial_accumulator(self) -> list[str]:
        return []

    def update(self, message: str, accumulator: list[str]) -> None:
        asked("update", message)
        accumulator.append(message)

    def combine(self, one: list[str], other: list[str]) -> list[str]:
        return one + other

    def output(self, key: str, accumulator: list[str]) -> str:  # noqa: ARG002
        for text in accumulator:
            asked("output", text)
        return "".join(accumulator)


@wallaroo.encoder
def encode(text: str) -> str:
    asked("encode", text)
    return text


def application() -> Application:
    source = wallaroo.source("p", wallaroo.TCPSourceConfig("", 0, decode))
    keyed = source.to(compute).to(several).key_by(key).to(note)
    windows = keyed.to(wallaroo.count_windows(1).over(Gathered))
    made = windows.to_sink(wallaroo.TCPSinkConfig("", 0, encode))
    return resolve(wallaroo.build_application("odd", made))


def test_a_message_on_which_anything_is_raised_is_set_aside_as_simulated() -> None:
    made = application()
    texts = ["fine", "opaque", *(f"{where} {kind}" for where in WHERE for kind in ODD), "good"]
    sent = [("p", text.encode()) for text in texts]
    expected = simulate(made, sent)
    raising = [text for text in texts if text not in {"fine", "good"}]
    assert len(expected.set_aside) == len(raising)
    assert {type(error).__name__ for *_, error in expected.set_aside} == {*ODD, "Unsendable"}
    assert expected.outputs[0] == b"fine"
    assert expected.outputs[-1] == b"good"

    program = Program(made, 1)
    ((block,),) = chunks(made, sent, [0] * len(sent))
    results = TaskResults()
    packed = run_isolated(program, results, 0, lambda p, r: Router(p, r).route(block))
    for level in range(1, program.levels.count + 1):
        bucket = Bucket([{}, {}])
        blobs = [one.blob for one in packed if one.level == level]

        def run(p: Program, r: TaskResults, level: int = level, blobs: Any = blobs) -> Any:
            runner = StateRunner(p, r, level)
            runner.run(blobs, 0, bucket)  # noqa: B023
            return runner.sent()

        packed = [*packed, *run_isolated(program, results, 0, run)]
    staged, tally = results.take()
    outputs = [one for made in staged for one in made.cut()]
    assert sorted(outputs) == sorted(expected.outputs)
    assert sorted(
        (letter.step, letter.error.partition(":")[0]) for letter in tally.letters
    ) == sorted((step, type(error).__name__) for _, step, _, error in expected.set_aside)


def test_control_c_ends_a_simulation() -> None:
    builder = wallaroo.ApplicationBuilder("pressed")
    builder.new_pipeline("p", wallaroo.TCPSourceConfig("", 0, decode))
    builder.to(wallaroo.computation(name="press")(lambda _: signal.raise_signal(signal.SIGINT)))
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # may be ignored, as by "&"
    try:
        with pytest.raises(KeyboardInterrupt):
            simulate(builder.done().build(), [("p", b"a")])
    finally:
        signal.signal(signal.SIGINT, previous)
