"""Declared windows and aggregations: what is refused, with what to write instead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import wallaroo
from tests.applications.gathering import Gathering
from wallaroo import Window, minutes, seconds
from wallaroo.errors import ApplicationError
from wallaroo.graphs.graph import graph_of
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate

SINK = wallaroo.TCPSinkConfig("", 1, wallaroo.encoder(str))


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> str:
    return payload.decode()


@wallaroo.computation(name="shout")
def shout(text: str) -> str:
    return text.upper()


def sink(port: int) -> wallaroo.TCPSinkConfig[str]:
    return wallaroo.TCPSinkConfig("", port, wallaroo.encoder(str))


def texts() -> wallaroo.Pipeline[str]:
    return wallaroo.source("texts", wallaroo.TCPSourceConfig("", 0, decode))


def problem_of(*pipelines: Any) -> str:
    with pytest.raises(ApplicationError) as raised:
        resolve(wallaroo.build_application("app", *pipelines))
    (problem,) = raised.value.problems
    return problem


class Joined(Gathering[str, str]):
    """Joins the texts of a window with a separator."""

    def __init__(self, separator: str = "") -> None:
        self.separator = separator

    def output(self, _key: Any, accumulator: list[str]) -> str:
        return self.separator.join(accumulator)


def run(pipeline: Any, *sent: str) -> list[bytes]:
    application = wallaroo.build_application("app", pipeline.to_sink(SINK))
    return simulate(application, [("texts", text.encode()) for text in sent]).outputs


def test_an_aggregation_takes_arguments_as_an_instance_and_none_as_a_class() -> None:
    windows: Any = wallaroo.count_windows(2)
    assert run(texts().collect().to(windows.over(Joined("-"))), "a", "b") == [b"a-b"]
    assert run(texts().collect().to(windows.over(Joined)), "a", "b") == [b"ab"]


def test_a_class_that_needs_arguments_is_to_be_given_them() -> None:
    class Needs(Joined):
        def __init__(self, separator: str) -> None:
            super().__init__(separator)

    windowing: Any = wallaroo.count_windows(2).over(Needs)
    problem = problem_of(texts().collect().to(windowing).to_sink(SINK))
    assert "windows over Needs is called with (no arguments; for arguments, write" in problem
    assert "over(Needs(…))" in problem


@pytest.mark.parametrize("count", [1, 4])
def test_an_output_with_another_number_of_parameters_is_refused(count: int) -> None:
    class Odd(Joined):
        output: Any = {1: lambda _self, _key: "", 4: lambda _self, _key, _all, _from, _to: ""}[
            count
        ]

    problem = problem_of(texts().collect().to(wallaroo.count_windows(2).over(Odd)).to_sink(SINK))
    assert "is called with (self, key, accumulator) or (self, key, accumulator, window)" in problem


def test_an_output_may_take_the_window() -> None:
    class Shown(Gathering[str, str]):
        def output(self, _key: Any, _all: list[str], window: Window) -> str:
            return f"{window.start:%H:%M:%S} {window.end:%H:%M:%S} {window.is_final}"

    at = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
    windows = wallaroo.range_windows(timedelta(seconds=10)).with_event_time(lambda _: at)
    made = run(texts().collect().to(windows.with_early_results(messages=1).over(Shown)), "a")
    assert made == [b"12:00:00 12:00:10 False"]


def test_an_event_time_without_a_zone_makes_a_dead_letter() -> None:
    windows = wallaroo.range_windows(seconds(1)).with_event_time(lambda _: datetime(2026, 3, 1))
    application = wallaroo.build_application(
        "app", texts().collect().to(windows.over(Joined)).to_sink(SINK)
    )
    ((_, _, _, error),) = simulate(application, [("texts", b"a")]).set_aside
    assert "without a time zone; give it one, such as UTC" in str(error)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: wallaroo.range_windows(60), r"write wallaroo\.seconds\(60\) or timedelta\("),  # type: ignore[arg-type]
        (
            lambda: wallaroo.range_windows(6 * 10**10),  # type: ignore[arg-type]
            r"without a unit; write wallaroo\.nanoseconds\(60000000000\) if it is in nanoseconds",
        ),
        (lambda: wallaroo.session_windows(seconds(0)), "the gap is 0 ns; it must be positive"),
        (lambda: wallaroo.session_windows("5 s"), "the gap is '5 s'; expected a duration"),  # type: ignore[arg-type]
        (lambda: wallaroo.count_windows(5).with_timeout(5), "the timeout is 5, without a unit"),  # type: ignore[arg-type]
        (lambda: wallaroo.count_windows(5).with_early_results(), "either messages or every"),
        (
            lambda: wallaroo.count_windows(5).with_early_results(messages=1, every=seconds(1)),
            "either messages or every",
        ),
        (
            lambda: wallaroo.count_windows(5).with_early_results(messages=0),
            "the number of messages is 0; it must be positive",
        ),
        (
            lambda: wallaroo.range_windows(minutes(1)).with_early_results(every=10),  # type: ignore[arg-type]
            "the duration between early results is 10, without a unit",
        ),
    ],
)
def test_windows_that_make_no_sense_are_refused(wrong: Any, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        wrong()


@pytest.mark.parametrize(
    ("windows", "reason"),
    [
        (wallaroo.count_windows(2), "windows of a number of messages close by number"),
        (wallaroo.range_windows(seconds(1)), "without with_event_time, the time of arrival counts"),
        (
            wallaroo.session_windows(seconds(1))
            .with_event_time(int)
            .with_late_data_policy("fire-per-message"),
            "the late data policy 'fire-per-message' aggregates them",
        ),
    ],
)
def test_late_messages_that_cannot_be_are_not_waited_for(windows: Any, reason: str) -> None:
    late = texts().collect().to(windows.over(Joined)).late()
    assert f"step 'Joined': late() would get no messages: {reason}" in problem_of(
        late.to_sink(SINK)
    )


def minutes_of_texts() -> wallaroo.WindowedPipeline[str, str]:
    windows = wallaroo.range_windows(minutes(1)).with_event_time(lambda text: minutes(int(text)))
    return texts().collect().to(windows.over(Joined))


def test_late_messages_alone_may_be_wanted() -> None:
    assert run(minutes_of_texts().late(), "1", "5", "2", "3") == [b"2", b"3"]


def test_late_messages_may_go_several_ways_and_join_the_others() -> None:
    results = minutes_of_texts()
    both = results.merge(results.late().to(shout)).merge(results.late())
    assert run(both, "1", "5", "2") == [b"1", b"2", b"2"]


@wallaroo.key_extractor
def first_letter(text: str) -> str:
    return text[0]


def test_late_messages_have_an_edge_in_the_graph() -> None:
    results = minutes_of_texts()
    application = resolve(
        wallaroo.build_application(
            "app",
            results.to_sink(sink(1)),
            results.late().to(shout).to_sink(sink(2)),
            results.late().key_by(first_letter).to(remember).to_sink(sink(3)),
        )
    )
    graph = graph_of(application)
    names = {node.id: node.name for group in graph.groups for node in group.nodes}
    edges = [(names[e.start], names[e.end], e.label) for e in graph.edges if e.kind == "messages"]
    assert edges == [
        ("texts", "Joined", ""),
        ("Joined", "shout", "late"),
        ("shout", "texts 2", ""),
        ("Joined", "remember", "late · first_letter"),
        ("remember", "texts 3", ""),
        ("Joined", "texts", ""),
    ]


def test_pipelines_with_a_common_prefix_end_at_sinks_of_their_own() -> None:
    prefix = texts().to(shout)
    application = wallaroo.build_application(
        "app", prefix.to_sink(SINK), texts_of("more").to_sink(sink(3)), prefix.to_sink(sink(2))
    )
    result = simulate(application, [("texts", b"a"), ("more", b"b")])
    assert result.by_sink == {"texts": [b"A"], "texts 2": [b"A"], "more": [b"b"]}


def test_pipelines_may_end_at_one_sink() -> None:
    prefix = texts().to(shout)
    application = wallaroo.build_application(
        "app", prefix.to_sink(SINK), texts_of("more").to_sink(SINK), prefix.to(shout).to_sink(SINK)
    )
    result = simulate(application, [("texts", b"a"), ("more", b"b")])
    assert result.by_sink == {"texts": [b"A", b"A", b"b"]}


def texts_of(name: str) -> wallaroo.Pipeline[str]:
    return wallaroo.source(name, wallaroo.TCPSourceConfig("", 0, decode))


def test_a_pipeline_without_an_end_is_found_among_several() -> None:
    prefix = texts().to(shout)
    assert "has no end" in problem_of(prefix.to_sink(SINK), prefix.to(shout))


class Seen:
    """A state without contents."""


@wallaroo.state_computation(name="remember", state=Seen)
def remember(text: str, _seen: Seen) -> str:
    return text


def hints(pipeline: wallaroo.Pipeline[Any]) -> tuple[str, ...]:
    return resolve(wallaroo.build_application("app", pipeline.to_sink(SINK))).hints


@pytest.mark.parametrize(
    ("step", "name"),
    [(remember, "remember"), (wallaroo.count_windows(2).over(Joined), "Joined")],
    ids=["state", "windows"],
)
def test_a_forgotten_key_is_hinted_at_with_step_and_line(step: Any, name: str) -> None:
    (hint,) = hints(texts().to(shout).to(step))
    assert hint.startswith("test_windows.py:")
    assert f"pipeline 'texts', step {name!r}: there is no key_by before it" in hint
    assert "add .key_by(…), or .collect() if that is what you mean" in hint


@pytest.mark.parametrize("keyed", [lambda p: p.collect(), lambda p: p.key_by(lambda text: text)])
def test_a_key_or_one_key_for_all_silences_the_hint(keyed: Any) -> None:
    assert hints(keyed(texts()).to(shout).to(remember)) == ()
