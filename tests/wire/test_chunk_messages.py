"""Reports of chunks, packed and read."""

from __future__ import annotations

import struct
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wallaroo.wire.chunk_messages import Report, pack_report, report_in
from wallaroo.wire.records import FailedMessage, Outputs, Packed, Tally
from wallaroo.wire.task_metrics import StepMetrics, StoredFigures, TaskMetrics, WindowFigures

counts = st.integers(0, 2**63)
small = st.integers(0, 2**32 - 1)
times = st.integers(-(2**63), 2**63 - 1)
names = st.text()


def dictionaries(*parts: st.SearchStrategy[Any], values: st.SearchStrategy[Any]) -> Any:
    return st.dictionaries(parts[0] if len(parts) == 1 else st.tuples(*parts), values, max_size=3)


steps = st.builds(StepMetrics, counts, counts, counts, counts, st.floats(0, 1e9), counts)
metrics = st.builds(
    TaskMetrics,
    dictionaries(names, names, values=steps),
    dictionaries(small, times, values=counts),
    dictionaries(names, counts, values=counts),
    dictionaries(names, counts, values=st.builds(WindowFigures, counts, st.none() | times)),
    dictionaries(names, counts, values=counts),
    dictionaries(names, counts, values=st.builds(StoredFigures, counts, counts, counts)),
    dictionaries(names, names, values=counts),
    dictionaries(names, values=counts),
    dictionaries(names, values=counts),
)
failures = st.builds(FailedMessage, *[names] * 5, st.none() | names, st.none() | counts)
tallies = st.builds(
    Tally,
    counts,
    *[st.lists(failures, max_size=2)] * 2,
    *[dictionaries(names, names, values=counts)] * 2,
    *[dictionaries(counts, counts, values=st.none() | times)] * 2,
    metrics,
    dictionaries(names, names, names, values=counts),
)
reports = st.builds(
    Report,
    counts,
    st.lists(st.builds(Outputs, small, st.binary(), st.binary()), max_size=3),
    tallies
    | st.builds(
        lambda one: Tally(metrics=TaskMetrics(one)), dictionaries(names, names, values=steps)
    ),
    st.integers(0, 255),
    dictionaries(st.integers(0, 255), values=st.lists(small)),
    st.lists(st.builds(Packed, small, small, st.binary()), max_size=3),
    st.binary(),
    st.floats(0, 1e9),
)


@given(reports)
@example(Report(1, [], Tally(), sent=[]))
@example(Report(1, [], Tally(metrics=TaskMetrics({("\ud800", "a\0b"): StepMetrics(1)})), sent=[]))
def test_a_report_comes_back_as_it_was(report: Report) -> None:
    if not report.tally.has_others:  # examples are of failures, which are counted
        report.tally.examples.clear()
    assert report_in(b"".join(pack_report(report))) == report


@given(reports, st.data())
def test_a_cut_report_is_refused(report: Report, data: st.DataObject) -> None:
    frame = b"".join(pack_report(report))
    cut = frame[: data.draw(st.integers(1, len(frame) - 1))]
    with pytest.raises((ValueError, LookupError, TypeError, struct.error)):
        report_in(cut)


def test_no_field_of_a_tally_makes_it_nothing() -> None:
    """A report leaves out what says nothing: so each field has to be asked for."""
    some: dict[str, Any] = {
        "set_aside": 1,
        "letters": [FailedMessage("p", "s", "a.py:1", "E", "m")],
        "unknown_keys": {("s", "k"): 1},
        "late": {("p", "s"): 1},
        "due": {(1, 0): None},
        "expiries": {(1, 0): 5},
        "failures": {("p", "s", "a.py:1"): 1},
    }
    of_metrics: dict[str, Any] = {
        "entities": {("s", 1): 0},
        "windows": {("s", 1): WindowFigures(0, None)},
        "log_bytes": {("s", 1): 0},
        "stored": {("s", 1): StoredFigures(0, 0, 0)},
        "hot_keys": {("s", "k"): 1},
        "keyed": {"s": 1},
        "expired": {"s": 1},
        "processors": {("one", 0): (1.5, 0.5)},
    }
    assert {one.name for one in fields(Tally)} - some.keys() == {"examples", "metrics"}
    assert {one.name for one in fields(TaskMetrics)} - of_metrics.keys() == {"steps", "arrivals"}
    for name, value in some.items():
        assert Tally(**{name: value}).has_others, name
    for name, value in of_metrics.items():
        assert Tally(metrics=TaskMetrics(**{name: value})).has_others, name
