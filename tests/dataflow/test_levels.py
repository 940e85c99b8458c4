"""Pipelines with several stateful steps, forks and windows, held against the simulation."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wallaroo
from tests.dataflow.harness import Driven, Sent, chunks, drive_all, tick
from tests.random_applications import (
    WINDOWS,
    Gather,
    add_one,
    ask,
    declared,
    decode,
    encode,
    letter,
    moody,
    note,
    parity,
    score,
)
from wallaroo.dataflow.levels import Hop, Levels
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate

payloads = st.builds(
    lambda key, number: f"{key}{number}".encode(), st.sampled_from("abcd"), st.integers(0, 60)
)


@st.composite
def streams(draw: st.DrawFn, application: Application) -> tuple[Sent, list[int]]:
    """Messages, and what ends before each of them."""
    names = st.sampled_from([source.name for source in application.sources])
    sent = draw(st.lists(st.tuples(names, payloads), max_size=25))
    return sent, draw(st.lists(st.integers(0, 3), min_size=len(sent), max_size=len(sent)))


@pytest.mark.filterwarnings("ignore::wallaroo.testing.HintWarning")
@settings(max_examples=250, deadline=None)
@given(st.randoms(use_true_random=False), st.data())
def test_any_split_of_the_messages_gives_what_the_simulation_gives(
    choose: random.Random, data: st.DataObject
) -> None:
    application = resolve(declared(choose))
    sent, cuts = data.draw(streams(application))
    driven, due = drive_all(application, sent, cuts), simulate(application, sent)
    for sink in application.sinks:
        assert sorted(driven.outputs[sink.name]) == sorted(due.by_sink[sink.name])
    assert driven.state() == due.state
    assert Counter((e.pipeline, e.step, e.message) for e in driven.tally.examples) == Counter(
        (pipeline, step, shown(message)) for pipeline, step, message, _ in due.set_aside
    )
    assert driven.tally.late == Counter((pipeline, step) for pipeline, step, _ in due.late)


def shown(message: Any) -> str:
    return repr(message)[:200]


def test_windows_close_on_silence_and_what_they_give_goes_on() -> None:
    windows = wallaroo.range_windows(wallaroo.nanoseconds(10)).over(Gather)
    pipeline = wallaroo.source("one", wallaroo.TCPSourceConfig("", 0, decode))
    pipeline = pipeline.key_by(letter).to(windows).key_by(parity).to(note)
    pipeline = pipeline.to_sink(wallaroo.TCPSinkConfig("", 0, encode))
    application = resolve(wallaroo.build_application("windows", pipeline))
    driven = Driven(application)
    sent = [("one", b"a1"), ("one", b"b2"), ("one", b"a3")]
    for batch in chunks(application, sent, [0] * 3):
        driven.batch(batch)
    assert driven.due_ns() == 10
    assert not driven.outputs["one"]
    driven.batch([[tick(3, 9)]])
    assert not driven.outputs["one"]
    driven.batch([[tick(4, 10)]])
    due = simulate(application, [(*message, 0) for message in sent], until_ns=10)
    assert sorted(driven.outputs["one"]) == sorted(due.outputs) != []
    assert driven.state() == due.state
    assert driven.state()["Gather"] == {}, "nothing is kept of windows that have closed"
    assert driven.due_ns() is None


def test_steps_of_one_key_share_a_level_and_other_keys_get_the_next() -> None:
    def pipeline(*stages: Any) -> Application:
        built = wallaroo.source("one", wallaroo.TCPSourceConfig("", 0, decode))
        for stage in stages:
            built = built.key_by(stage) if stage in (letter, parity) else built.to(stage)
        return resolve(wallaroo.build_application("app", built.to_sink(SINK)))

    def levels(application: Application) -> list[int]:
        program = Driven(application).program
        return [program.levels.level(number) for number in range(len(program.partitions))]

    assert levels(pipeline(letter, note, add_one, moody, WINDOWS[0])) == [1, 1, 1]
    assert levels(pipeline(letter, note, parity, moody, letter, note)) == [1, 2, 3]
    assert levels(pipeline(letter, note, ask, moody, score, note)) == [1, 2, 3]


SINK = wallaroo.TCPSinkConfig("", 0, encode)


partitions = st.integers(0, 4)


@given(st.lists(st.builds(Hop, partitions, partitions, st.booleans(), st.booleans()), max_size=8))
def test_a_hop_leads_to_a_later_level_or_stays_where_the_bucket_does(hops: list[Hop]) -> None:
    levels = Levels(5, hops)
    for hop in hops:
        before, after = levels.level(hop.origin), levels.level(hop.to)
        assert before <= after
        if before == after:
            serial = levels.serial_number(hop.origin)
            assert serial == levels.serial_number(hop.to)
            assert hop.same_key or serial is not None


@pytest.mark.parametrize(
    ("key", "step", "number"), [(parity, note, 13), (letter, moody, 14)], ids=["key", "state"]
)
def test_what_a_key_function_or_a_state_refuses_is_told_as_the_message_that_it_got(
    key: Any, step: Any, number: int
) -> None:
    source = wallaroo.source("in", wallaroo.TCPSourceConfig("localhost", "7000", decode))
    sink = wallaroo.TCPSinkConfig("localhost", "7001", encode)
    application = resolve(
        wallaroo.build_application("odd", source.key_by(key).to(step).to_sink(sink))
    )
    driven = Driven(application)
    for batch in chunks(application, [("in", b"a%d" % number)], [0]):
        driven.batch(batch)
    assert [example.message for example in driven.tally.examples] == [f"('a', {number})"]
