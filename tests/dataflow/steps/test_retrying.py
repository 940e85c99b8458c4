"""Calls that are tried again before their message becomes a dead letter."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

import wallaroo
from tests.dataflow.harness import chunks, drive_all
from wallaroo.dataflow.call_timeout import CallTimeout
from wallaroo.dataflow.decoding import Router
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.results import TaskResults
from wallaroo.errors import ApplicationError
from wallaroo.graphs.graph import graph_of
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate


class Flaky:
    """Raises as often as the first digit of a message says."""

    def __init__(self, error: type[Exception] = ConnectionError) -> None:
        self.calls: list[str] = []
        self._error = error

    def __call__(self, text: str) -> str:
        self.calls.append(text)
        if self.calls.count(text) <= int(text[0]):
            raise self._error(text)
        return text


def application(function: Any, retry: Any) -> Application:
    step = wallaroo.computation(name="ask", retry=retry)(function)
    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
    source = wallaroo.source("p", wallaroo.TCPSourceConfig("", 0, decoder)).to(step)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str.encode))
    return resolve(wallaroo.build_application("asking", source.to_sink(sink)))


SENT = [("p", text) for text in (b"0 a", b"2 b", b"3 c", b"1 d")]


def test_a_message_fails_after_its_last_attempt_and_the_order_is_kept() -> None:
    in_engine, in_simulation = Flaky(), Flaky()
    retry = wallaroo.retries(2, backoff=wallaroo.nanoseconds(1))
    driven = drive_all(application(in_engine, retry), SENT, [0, 0, 2, 3])
    assert driven.outputs["p"] == [b"0 a", b"2 b", b"1 d"]
    (letter,) = driven.tally.examples
    assert (letter.step, letter.error, letter.arrival) == ("ask", "ConnectionError: 3 c", 2)
    assert letter.place.startswith("test_retrying.py:")
    simulation = simulate(application(in_simulation, retry), SENT)
    assert simulation.outputs == driven.outputs["p"]
    ((_, step, message, error),) = simulation.set_aside
    assert (step, message, error.__notes__) == ("ask", "3 c", ["attempts: 3"])
    assert in_engine.calls == in_simulation.calls
    assert in_engine.calls == ["0 a", *["2 b"] * 3, *["3 c"] * 3, *["1 d"] * 2]


def test_a_simulation_does_not_pause() -> None:
    day = datetime.timedelta(days=1)
    assert simulate(application(Flaky(), wallaroo.retries(3, day)), SENT).outputs[-1] == b"1 d"


def test_other_exceptions_are_not_tried_again() -> None:
    flaky = Flaky(KeyError)
    simulate(application(flaky, wallaroo.retries(3, on=(OSError, TimeoutError))), SENT)
    assert flaky.calls == [text.decode() for _, text in SENT]


def test_all_attempts_and_pauses_count_as_one_call_for_the_time_limit() -> None:
    flaky = Flaky()
    made = application(flaky, wallaroo.retries(9, backoff=wallaroo.milliseconds(200)))
    ((block,),) = chunks(made, [("p", b"9" * 4), ("p", b"0 b")], [0, 0])
    results = TaskResults()
    limit = CallTimeout(0.5)
    limit.start()
    try:
        Router(Program(made, 1), results).route(block)
    finally:
        limit.stop()
    outputs, tally = results.take()
    (letter,) = tally.letters
    assert letter.error == "CallTimedOut: the call took longer than 0.5 s"
    assert flaky.calls.count("9999") < 9
    assert [one.data for one in outputs] == [b"0 b"]


def test_retries_are_drawn() -> None:
    (group,) = graph_of(application(Flaky(), wallaroo.retries(2))).groups
    assert [node.detail for node in group.nodes if node.kind == "step"] == ["2 retries"]


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(ApplicationError) as refused:
        application(Flaky(), 3)
    assert "step 'ask': retry is 3; expected wallaroo.retries(…)" in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: wallaroo.retries(0), "the number of retries is 0; it must be positive"),
        (lambda: wallaroo.retries(2.5), r"number of retries is 2\.5; expected an integer"),  # type: ignore[arg-type]
        (
            lambda: wallaroo.retries(1, backoff=wallaroo.nanoseconds(-1)),
            "the backoff is -1 ns; it must not be negative",
        ),
        (lambda: wallaroo.retries(1, backoff=2), "the backoff is 2, without a unit"),  # type: ignore[arg-type]
        (lambda: wallaroo.retries(1, backoff=0.5), "the backoff is 0.5, without a unit"),  # type: ignore[arg-type]
        (lambda: wallaroo.retries(1, on=()), r"on is \(\), so nothing is tried again"),
        (lambda: wallaroo.retries(1, on="all"), "on contains 'all'; expected classes of"),  # type: ignore[arg-type]
    ],
)
def test_wrong_retries_are_refused(wrong: Any, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        wrong()
