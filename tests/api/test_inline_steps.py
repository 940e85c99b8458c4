"""Steps of plain functions do what decorated ones do, and their mistakes name function and line."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import wallaroo
from wallaroo.testing import HintWarning, Simulation, simulate

TEXTS = wallaroo.source("Texts", wallaroo.TCPSourceConfig("", 0, bytes.decode, framing="lines"))
text = wallaroo.encoder(str)
AnyPipeline = wallaroo.Pipeline[Any]


def to(number: int) -> wallaroo.TCPSinkConfig[Any]:
    return wallaroo.TCPSinkConfig("", number, text)


def simulated(*pipelines: AnyPipeline, texts: bytes = b"") -> Simulation:
    application = wallaroo.build_application("Inline", *pipelines)
    return simulate(application, [("Texts", one) for one in texts.split(b",")])


def halves(number: str) -> Iterator[str]:
    yield number[: len(number) // 2]
    yield number[len(number) // 2 :]


async def slow(message: str) -> str:
    return message


def test_steps_map_filter_and_flat_map() -> None:
    found = simulated(
        TEXTS.filter(str.isdigit).flat_map(halves).map(lambda half: half + "!").to_sink(to(1)),
        texts=b"1234,ab,56",
    )
    assert found.outputs == [b"12!", b"34!", b"5!", b"6!"]


def test_messages_that_are_inspected_are_printed_and_passed_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = simulated(TEXTS.inspect().inspect(int).to_sink(to(1)), texts=b"7,x,07")
    assert found.outputs == [b"7", b"07"]
    assert [failed[2] for failed in found.set_aside] == ["x"]
    assert capsys.readouterr().out == "'7'\n7\n'x'\n'07'\n7\n"


def test_what_cannot_be_printed_changes_no_output() -> None:
    found = simulated(TEXTS.inspect(lambda _: "\ud800").to_sink(to(1)), texts=b"a")
    assert found.outputs == [b"a"]


def test_a_split_calls_its_predicate_once_and_sends_each_message_one_way() -> None:
    calls: list[str] = []

    def is_large(number: str) -> bool:
        calls.append(number)
        return int(number) > 9

    large, small = TEXTS.split(is_large)
    found = simulated(large.to_sink(to(1)), small.to_sink(to(2)), texts=b"1,20,3,x")
    assert found.by_sink == {"Texts": [b"20"], "Texts 2": [b"1", b"3"]}
    assert calls == ["1", "20", "3", "x"]
    assert [failed[1:3] for failed in found.set_aside] == [("is_large", "x")]


@pytest.mark.parametrize("key", [operator.itemgetter(0), functools.partial(max), str.lower])
def test_whatever_can_be_called_can_be_a_key_function(key: Callable[[str], str]) -> None:
    counted = TEXTS.key_by(key).to(wallaroo.count_windows(1).over(wallaroo.Count))
    found = simulated(counted.map(lambda r: r.key).to_sink(to(1)), texts=b"ab")
    assert found.outputs == [key("ab").encode()]


def test_sides_of_a_split_can_be_merged_again_and_split_further() -> None:
    digits, others = TEXTS.split(str.isdigit)
    even, odd = digits.split(lambda number: int(number) % 2 == 0)
    merged = even.map(lambda _: "even").merge(odd.map(lambda _: "odd")).merge(others)
    found = simulated(merged.to_sink(to(1)), texts=b"1,2,x")
    assert found.outputs == [b"odd", b"even", b"x"]


def test_steps_after_a_key_keep_it() -> None:
    counted = TEXTS.key_by(lambda word: word[0]).filter(str.isalpha).map(str.lower)
    windows = wallaroo.count_windows(2).over(wallaroo.Count)
    found = simulated(
        counted.to(windows).map(lambda r: r.key).to_sink(to(1)), texts=b"Ab,b,A1,Ac,b"
    )
    assert found.outputs == [b"A", b"b"]


@wallaroo.computation(name="decorated")
def decorated(message: str) -> str:
    return message.upper()


@pytest.mark.parametrize(
    ("added", "name"),
    [
        (lambda: TEXTS.map(str.upper), "upper"),
        (lambda: TEXTS.map(lambda word: word), "map at test_inline_steps.py:{line}"),
        (lambda: TEXTS.map(lambda word: word, name="same"), "same"),
        (lambda: TEXTS.filter(lambda _: True), "filter at test_inline_steps.py:{line}"),
        (lambda: TEXTS.flat_map(halves), "halves"),
        (lambda: TEXTS.inspect(str.upper), "inspect at test_inline_steps.py:{line}"),
        (
            lambda: TEXTS.map(functools.partial(str.replace, "a")),
            "map at test_inline_steps.py:{line}",
        ),
    ],
)
def test_a_step_is_called_like_its_function_or_its_line(
    added: Callable[[], AnyPipeline], name: str
) -> None:
    (declared,) = added().declared()
    step = declared.steps[-1].computation
    assert step.name == name.format(line=added.__code__.co_firstlineno)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: TEXTS.map(3), "map is given 3; expected a function of a message"),  # type: ignore[arg-type]
        (lambda: TEXTS.filter("x"), "filter is given 'x'; expected a function"),  # type: ignore[arg-type]
        (lambda: TEXTS.inspect(3), "inspect is given 3; expected a function"),  # type: ignore[arg-type]
        (lambda: TEXTS.inspect(slow), "inspect is given slow, which is async"),
        (
            lambda: TEXTS.inspect(halves),
            "inspect is given halves, which is async or contains yield",
        ),
        (lambda: TEXTS.split(None), "split is given None; expected a function"),  # type: ignore[arg-type]
        (lambda: TEXTS.map(decorated), r"map is given the Computation decorated; .*write to\(…\)"),
        (
            lambda: TEXTS.flat_map(decorated, name="x"),
            "flat_map is given the Computation decorated",
        ),
        (
            lambda: TEXTS.filter(decorated),
            "filter is given the Computation decorated; expected a fun",
        ),
        (lambda: TEXTS.filter(slow), "filter is given slow, which is async or contains yield"),
        (lambda: TEXTS.split(halves), "split is given halves, which is async or contains yield"),
    ],
)
def test_what_is_no_function_is_refused_at_once(wrong: Callable[[], Any], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        wrong()


def test_other_mistakes_are_told_as_of_decorated_functions() -> None:
    with pytest.raises(wallaroo.ApplicationError, match=r"'slow'.* nothing awaits its result"):
        simulated(TEXTS.map(slow).to_sink(to(1)))
    with pytest.raises(wallaroo.ApplicationError, match="missing a required argument: 'other'"):
        simulated(TEXTS.filter(lambda one, other: one == other).to_sink(to(1)))  # type: ignore[misc,arg-type]
    with pytest.raises(wallaroo.ApplicationError, match="the name of a step is ''"):
        simulated(TEXTS.map(str.upper, name="").to_sink(to(1)))
    with pytest.warns(HintWarning, match="contains yield; .*, or use flat_map"):
        simulated(TEXTS.map(halves).map(list).to_sink(to(1)))


def test_a_result_that_is_always_true_is_no_answer_of_a_predicate() -> None:
    found = simulated(
        TEXTS.filter(lambda text: slow(text + "")).to_sink(to(1)),
        texts=b"a",
    )
    assert [type(error) for *_, error in found.set_aside] == [TypeError]
    assert "returned a coroutine, which is always true" in str(found.set_aside[0][3])
