"""Ready-made aggregations compute what Python computes of the list of all messages."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wallaroo
from wallaroo.api.ready_aggregations import ReadyAggregation
from wallaroo.codecs import json_encoder
from wallaroo.testing import simulate

Pair = tuple[int, str]


def number(pair: Pair) -> int:
    return pair[0]


KINDS: list[tuple[ReadyAggregation[Pair, Any], Callable[[list[Pair]], Any]]] = [
    (wallaroo.Count(), len),
    (wallaroo.Sum(number), lambda pairs: sum(map(number, pairs))),
    (wallaroo.Mean(number), lambda pairs: sum(map(number, pairs)) / len(pairs)),
    (wallaroo.Min(number), lambda pairs: min(map(number, pairs))),
    (wallaroo.Max(), max),
    (wallaroo.First(), lambda pairs: pairs[0]),
    (wallaroo.Last(), lambda pairs: pairs[-1]),
    (wallaroo.Collect(number), lambda pairs: [*map(number, pairs)]),
    (wallaroo.Top(2, by=number), lambda pairs: sorted(pairs, key=number, reverse=True)[:2]),
    (
        wallaroo.Top(3, of=number),
        lambda pairs: sorted(map(number, pairs), reverse=True)[:3],
    ),
]
if find_spec("datasketches"):  # it has no wheels for Python 3.14
    KINDS.append((wallaroo.ApproxDistinct(number), lambda pairs: len(set(map(number, pairs)))))
ALL = wallaroo.Aggregations(**{f"_{place}": part for place, (part, _) in enumerate(KINDS)})
PAIRS = st.lists(st.tuples(st.integers(-9, 9), st.text("ab", max_size=2)))


def accumulated(aggregation: ReadyAggregation[Any, Any], messages: list[Any]) -> list[Any]:
    accumulator = aggregation.initial_accumulator()
    for message in messages:
        aggregation.update(message, accumulator)
    return accumulator


@given(PAIRS, PAIRS)
def test_any_parts_give_what_python_gives(before: list[Pair], after: list[Pair]) -> None:
    if not before + after:
        return
    parts = accumulated(ALL, before), accumulated(ALL, after)
    copies = repr(parts)
    found = ALL.value(ALL.combine(*parts))
    assert repr(parts) == copies
    for place, (part, due) in enumerate(KINDS):
        expected = due(before + after)
        assert found[f"_{place}"] == expected
        one, other = accumulated(part, before), accumulated(part, after)
        assert part.value(part.combine(one, other)) == expected


@pytest.mark.parametrize("aggregation", [wallaroo.Max(), wallaroo.Sum(), wallaroo.Top(1), ALL])
def test_a_message_that_does_not_fit_changes_nothing(aggregation: Any) -> None:
    accumulator = accumulated(aggregation, [(1, "a"), (2, "b")])
    before = repr(accumulator)
    with pytest.raises((TypeError, IndexError)):
        aggregation.update(7, accumulator)
    assert repr(accumulator) == before


@pytest.mark.parametrize("order", list(itertools.permutations([math.nan, 2.0, 1.0])))
def test_what_is_not_a_number_counts_as_lowest_and_is_no_extreme(order: tuple[float, ...]) -> None:
    extremes = wallaroo.Aggregations(least=wallaroo.Min(), most=wallaroo.Max(), top=wallaroo.Top(2))
    found = extremes.value(accumulated(extremes, list(order)))
    assert found == {"least": 1.0, "most": 2.0, "top": [2.0, 1.0]}


def test_outputs_are_objects_in_json() -> None:
    output = wallaroo.Aggregated("tea", 3, wallaroo.Window(0, 60))
    window = {"start_ns": 0, "end_ns": 60, "is_final": True}
    encoded = json.loads(json_encoder().function(output))
    assert encoded == {"key": "tea", "value": 3, "window": window}


def test_outputs_have_key_value_and_window() -> None:
    texts = wallaroo.source("T", wallaroo.TCPSourceConfig("", 0, bytes.decode, framing="lines"))
    figures = wallaroo.Aggregations(n=wallaroo.Count(), longest=wallaroo.Max(len))
    shown: list[wallaroo.Aggregated[dict[str, int]]] = []

    @wallaroo.encoder
    def show(result: wallaroo.Aggregated[dict[str, int]]) -> bytes:
        shown.append(result)
        return b""

    minutes = wallaroo.range_windows(wallaroo.minutes(1)).with_event_time(
        lambda text: len(text) * wallaroo.seconds(30)
    )
    to = wallaroo.TCPSinkConfig("", 1, show)
    pipeline = texts.key_by(lambda text: text[0]).to(minutes.over(figures.named("figures")))
    application = wallaroo.build_application("A", pipeline.to_sink(to))
    simulate(application, [("T", b"a"), ("T", b"a"), ("T", b"abcd")])
    first = shown[0]
    assert (first.key, first.value) == ("a", {"n": 2, "longest": 1})
    assert (first.window.start_ns, first.window.end_ns) == (0, 60_000_000_000)


def test_a_name_is_that_of_the_step_and_its_state() -> None:
    texts = wallaroo.source("T", wallaroo.TCPSourceConfig("", 0, bytes.decode, framing="lines"))
    words = wallaroo.count_windows(1).over(wallaroo.Count().named("words"))
    (declared,) = texts.to(words).to(wallaroo.count_windows(1).over(wallaroo.Count())).declared()
    assert [step.state_name for step in declared.steps] == ["words", "Count"]


@pytest.mark.parametrize("wrong", [wallaroo.Count, ALL, len])
def test_aggregations_take_ready_made_ones_alone(wrong: Any) -> None:
    with pytest.raises(
        TypeError, match=r"given n=.*; expected another ready-made aggregation than Aggregations"
    ):
        wallaroo.Aggregations(n=wrong)


def test_top_takes_a_positive_count() -> None:
    with pytest.raises(wallaroo.WallarooParameterError, match="the count"):
        wallaroo.Top(0)


@pytest.mark.parametrize(
    "made",
    [
        lambda: wallaroo.Sum("price"),  # type: ignore[call-overload]
        lambda: wallaroo.Top(2, by=5),  # type: ignore[call-overload]
        wallaroo.Aggregations,
    ],
)
def test_what_is_no_function_of_a_message_is_refused_at_once(made: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=r"expected a function from a message|given none"):
        made()
