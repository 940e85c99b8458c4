"""Batched steps, held against plain Python: sizes of batches, order, and innocent messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wallaroo
from tests.dataflow.harness import chunks, drive_all
from wallaroo.dataflow.call_timeout import CallTimeout
from wallaroo.dataflow.decoding import Router
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.results import TaskResults
from wallaroo.dataflow.steps.batching import Batching
from wallaroo.dataflow.steps.gathering import Failed
from wallaroo.graphs.graph import graph_of
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.resolution.gathered_steps import awaits, longest_wait
from wallaroo.testing import simulate

decode = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
SINK = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str))


def application(function: Any, **options: Any) -> Application:
    step = wallaroo.computation_batch(name="score", **options)(function)
    source = wallaroo.source("p", wallaroo.TCPSourceConfig("", 0, decode))
    return resolve(wallaroo.build_application("scoring", source.to(step).to_sink(SINK)))


def sent(*texts: str) -> list[tuple[str, bytes]]:
    return [("p", text.encode()) for text in texts]


class Model:
    """Answers in upper case; fails for any batch with a poisonous text."""

    def __init__(self, how: str = "raises") -> None:
        self.batches: list[list[str]] = []
        self._how = how

    def __call__(self, texts: list[str]) -> Any:
        self.batches.append(texts.copy())
        results = [None if text.startswith("-") else text.upper() for text in texts]
        if any("!" in text for text in texts):
            match self._how:
                case "raises":
                    raise ValueError(self._how)
                case "exits":
                    raise SystemExit(self._how)
                case "drops":
                    results = [r for r, text in zip(results, texts, strict=True) if "!" not in text]
                case "empties":
                    texts.clear()
                    raise ValueError(self._how)
        return results


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.text("a!-", max_size=4), st.integers(0, 3)), max_size=40),
    st.integers(1, 9),
    st.sampled_from(["raises", "exits", "drops", "empties"]),
)
def test_innocent_messages_get_their_results_in_order_whatever_their_batches_hold(
    messages: list[tuple[str, int]], most: int, how: str
) -> None:
    texts = [f"{text}{number}" for number, (text, _) in enumerate(messages)]
    model = Model(how)
    made = application(model, max=most)
    driven = drive_all(made, sent(*texts), [cut for _, cut in messages])
    assert driven.outputs["p"] == [
        text.upper().encode() for text in texts if "!" not in text and not text.startswith("-")
    ]
    assert [letter.arrival for letter in driven.tally.letters] == [
        number for number, text in enumerate(texts) if "!" in text
    ]
    assert max(map(len, model.batches), default=0) <= most
    simulation = simulate(made, sent(*texts))
    assert simulation.outputs == driven.outputs["p"]
    assert [message for *_, message, _ in simulation.set_aside] == [t for t in texts if "!" in t]


def test_a_poisonous_message_costs_few_calls_and_batches_are_as_large_as_they_may_be() -> None:
    model = Model()
    texts = [*map(str, range(99)), "!"]
    driven = drive_all(application(model, max=64), sent(*texts), [0] * 100)
    assert len(driven.outputs["p"]) == 99
    assert [len(batch) for batch in model.batches[:2]] == [64, 36]
    assert len(model.batches) <= 2 + 2 * 6


def test_a_batch_is_tried_again_and_then_each_message_that_is_left_alone() -> None:
    calls: list[int] = []

    def flaky(texts: list[str]) -> list[str]:
        calls.append(len(texts))
        if len(calls) <= 2 or "!" in texts:
            raise ConnectionError(*texts)
        return texts

    made = application(flaky, retry=wallaroo.retries(2, backoff=0))
    driven = drive_all(made, sent("a", "b"), [0, 0])
    assert (driven.outputs["p"], calls) == ([b"a", b"b"], [2, 2, 2])
    driven = drive_all(made, sent("!", "b"), [0, 0])
    assert (driven.outputs["p"], calls[3:]) == ([b"b"], [2, 2, 2, 1, 1, 1, 1])


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (None, "TypeError: computation_batch 'score' returned the NoneType None; expected a list"),
        ("ab", "TypeError: computation_batch 'score' returned the str 'ab'; expected a list"),
        ({"a"}, "TypeError: computation_batch 'score' returned the set {'a'}; expected a list"),
        (
            [1, 2],
            "ValueError: computation_batch 'score' returned 2 results for 1 message; return one "
            "for each, in order, or None in its place",
        ),
    ],
)
def test_what_is_no_list_of_as_many_results_is_told(result: Any, error: str) -> None:
    driven = drive_all(application(lambda _texts: result), sent("a"), [0])
    assert driven.tally.letters[0].error.startswith(error)


def test_any_iterable_of_results_will_do() -> None:
    def generated(texts: list[str]) -> Any:
        yield from map(str.upper, texts)

    driven = drive_all(application(generated), sent("a", "b"), [0, 0])
    assert driven.outputs["p"] == [b"A", b"B"]


def test_a_batch_that_hangs_is_interrupted_and_its_other_messages_go_on() -> None:
    def hangs(texts: list[str]) -> list[str]:
        while "!" in texts:
            pass
        return texts

    ((block,),) = chunks(made := application(hangs), sent("a", "!", "b"), [0] * 3)
    results = TaskResults()
    limit = CallTimeout(0.2)
    limit.start()
    try:
        Router(Program(made, 1), results).route(block)
    finally:
        limit.stop()
    outputs, tally = results.take()
    (letter,) = tally.letters
    assert (letter.arrival, letter.error) == (1, "CallTimedOut: the call took longer than 0.2 s")
    assert b"".join(one.data for one in outputs) == b"ab"


def test_the_step_is_drawn_and_says_how_long_the_engine_may_wait() -> None:
    made = application(Model(), max=32, wait=wallaroo.milliseconds(20))
    (group,) = graph_of(made).groups
    assert [node.detail for node in group.nodes if node.kind == "step"] == ["batches of 32"]
    assert longest_wait(made) == (32, 0.02)
    assert longest_wait(application(Model(), max=32)) == (0, 0.0)
    assert not awaits(made)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max": 0}, "max is 0; it must be at least 1 and at most 1,000,000"),
        ({"max": "8"}, "max is '8'; expected an integer"),
        (
            {"wait": wallaroo.nanoseconds(-1)},
            "the wait is -1 ns; it must be at least 0 and at most 60 s",
        ),
        ({"wait": 0.5}, r"the wait is 0\.5, without a unit"),
    ],
)
def test_wrong_options_are_refused(options: Any, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        wallaroo.computation_batch(name="score", **options)


def test_what_a_failed_call_did_to_messages_is_forgotten() -> None:
    def count(messages: list[dict[str, int]]) -> list[dict[str, int]]:
        for message in messages:
            message["calls"] = message.get("calls", 0) + 1
        if any(message["number"] == 1 for message in messages):
            raise ValueError
        return messages

    results = Batching(count, "count", 8).run([{"number": number} for number in range(5)])
    assert isinstance(results.pop(1), Failed)
    assert results == [{"number": number, "calls": 1} for number in (0, 2, 3, 4)]
