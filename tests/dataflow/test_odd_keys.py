"""Odd keys on any cut of the messages, held against the simulation."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import odd_keys
from tests.dataflow.harness import Driven, Sent, chunks, tick
from wallaroo.api.places import place_of
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.testing import Simulation, simulate
from wallaroo.wire.records import Tally

pytestmark = pytest.mark.filterwarnings("ignore::wallaroo.testing.UnlistedKeysWarning")

NAMES = [f"{name} {number}" for name, keys in odd_keys.EQUAL.items() for number in range(len(keys))]
names = st.one_of(
    st.sampled_from(NAMES),
    st.sampled_from([*odd_keys.INVALID]),
    st.sampled_from(["text 0", "text 1", "any case", "hidden", "bytes 0", "memoryview"]),
)


def applied(setup: Callable[[list[str]], Any]) -> Application:
    return resolve(setup([]))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([odd_keys.application_setup, odd_keys.keyed_by]), st.data())
def test_any_cut_gives_what_the_simulation_gives(
    setup: Callable[[list[str]], Any], data: st.DataObject
) -> None:
    application = applied(setup)
    sources = st.sampled_from([source.name for source in application.sources])
    sent = data.draw(st.lists(st.tuples(sources, names.map(str.encode)), max_size=30))
    cuts = data.draw(st.lists(st.integers(0, 3), min_size=len(sent), max_size=len(sent)))
    compare(application, sent, cuts)


def test_every_odd_key_counts_as_in_the_simulation() -> None:
    application = applied(odd_keys.application_setup)
    choose = random.Random(7)
    told = [*NAMES, *odd_keys.INVALID]
    choose.shuffle(told)
    sent = [(source.name, name.encode()) for source in application.sources for name in told]
    due = compare(application, sent, [0, 1, 2, 3] * len(sent))
    direct = [output for output in due.by_sink["Direct"] if output.startswith(b"datetime ")]
    assert [int(output.partition(b": ")[2]) for output in direct] == list(range(1, 11))
    assert len(due.set_aside) == 4 * len(odd_keys.INVALID) - len(odd_keys.INVALID)


def compare(application: Application, sent: Sent, cuts: list[int]) -> Simulation:
    driven, due = Driven(application), simulate(application, sent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tally, "MAX_EXAMPLES", 10_000)
        for batch in chunks(application, sent, cuts[: len(sent)]):
            driven.batch(batch)
    for sink in application.sinks:
        assert Counter(driven.outputs[sink.name]) == Counter(due.by_sink[sink.name])
    assert Counter(
        (e.pipeline, e.step, e.error, e.message)
        for e in driven.tally.examples
        if "not among" not in e.error
    ) == Counter(
        (pipeline, step, f"{type(error).__name__}: {error}"[:500], repr(message))
        for pipeline, step, message, error in due.set_aside
    )
    assert sum(driven.tally.unknown_keys.values()) == len(due.unknown_keys)
    places = {e.place for e in driven.tally.examples if e.error.startswith("InvalidKey")}
    assert places <= {str(place_of(odd_keys.key))}
    return due


def test_a_value_that_is_equal_to_a_known_key_is_refused_all_the_same() -> None:
    driven = Driven(applied(odd_keys.application_setup))
    bad = odd_keys.key_named("any case")
    for good in (str(bad), bad.lower()):
        assert driven.program.bucket_of(good) >= 0
    assert bad == "OK"
    assert hash(bad) == hash("ok")
    for key in (bad, ("a", bad), odd_keys.Account("a", bad)):
        with pytest.raises(TypeError):
            driven.program.bucket_of(key)
        with pytest.raises(TypeError):
            driven.program.bucket_in(0, key)


def test_a_window_that_the_clock_closes_is_told_the_key_that_it_began_with() -> None:
    application = applied(odd_keys.keyed_by)
    sent = [("Keyed", f"one {number}".encode(), number) for number in (1, 2)]
    until_ns = 2 * 10**9
    due = simulate(application, sent, until_ns=until_ns).outputs
    assert due == [b"1.0: ['one 1', 'one 2']"]
    driven = Driven(application)
    for source, name, arrived in sent:
        [[[chunk]]] = chunks(application, [(source, name)], [0])
        driven.batch([[chunk._replace(first=arrived, arrived_ns=arrived)]])
    driven.batch([[tick(3, until_ns)]])
    assert driven.outputs["Keyed"] == due
