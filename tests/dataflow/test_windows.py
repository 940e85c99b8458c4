"""Windows of all kinds, with early results and late messages, held against what is written out.

The engine runs without Spark: in batches cut at random, with restarts between them and ticks of the
clock that come when they come. What it emits for a key depends on the messages and their times of
arrival alone.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple, get_args
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

import wallaroo
from tests.applications.gathering import Gathering
from tests.dataflow.harness import Driven, tick
from tests.dataflow.written_out import Given, Layout, WrittenOut
from wallaroo import Window, nanoseconds
from wallaroo.api.windows import LatePolicy
from wallaroo.dataflow import clocks
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate
from wallaroo.wire.records import Block


class Event(NamedTuple):
    """A message as it is sent."""

    key: str
    id: int
    time: int


class Happening(NamedTuple):
    """A message, and what happens around it."""

    key: str
    step: int
    """From the time of the message before to that of this one."""
    pause: int
    """Time until it arrives, since the one before."""
    ticks: bool
    """Whether a tick comes before it, halfway."""
    cut: int
    """What ends before it: 1 for a batch, 2 for the process, too."""
    held: int
    """Time in which nothing was read, before that pause; if event time counts."""


class Shown(Gathering[Event, str]):
    """Shows a window as `Given` does."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def output(self, key: str, accumulator: list[Event], window: Window) -> str:
        ids = sorted(event.id for event in accumulator)
        return f"{key}{self.prefix}{window.start_ns} {window.end_ns} {window.is_final} {ids}"


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> Event:
    key, id_, time = payload.decode().split()
    return Event(key, int(id_), int(time))


@wallaroo.encoder
def encode(text: str) -> str:
    return text


@wallaroo.key_extractor
def key_of(event: Event) -> str:
    return event.key


@wallaroo.computation(name="say late")
def say_late(event: Event) -> str:
    return f"{event.key} {event.id}"


def sink(port: int) -> wallaroo.TCPSinkConfig[str]:
    return wallaroo.TCPSinkConfig("", port, encode)


def windows_of(layout: Layout) -> Any:
    windows: Any
    if layout.kind == "count":
        windows = wallaroo.count_windows(layout.length)
        windows = windows.with_timeout(nanoseconds(layout.timeout)) if layout.timeout else windows
    else:
        length = nanoseconds(layout.length)
        if layout.kind == "session":
            windows = wallaroo.session_windows(length)
        else:
            windows = wallaroo.range_windows(length).with_slide(nanoseconds(layout.slide))
        windows = windows.with_delay(nanoseconds(layout.delay)).with_late_data_policy(layout.late)
        if layout.event_time:
            windows = windows.with_event_time(lambda event: event.time)
    if layout.messages:
        windows = windows.with_early_results(messages=layout.messages)
    if layout.every:
        windows = windows.with_early_results(every=nanoseconds(layout.every))
    return windows.over(Shown(" "))


def application(layout: Layout) -> Application:
    events = wallaroo.source("Events", wallaroo.TCPSourceConfig("", 0, decode)).key_by(key_of)
    results = events.to(windows_of(layout))
    parts = [results.to_sink(sink(1))]
    if layout.kind != "count" and layout.late == "drop" and layout.event_time:
        parts.append(results.late().to(say_late).to_sink(sink(2)))
    return resolve(wallaroo.build_application("Windows", *parts))


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    kind = draw(st.sampled_from(["range", "session", "count"]))
    length = draw(st.integers(1, 12))
    early = draw(st.sampled_from([(0, 0), (1, 0), (3, 0), (0, 4), (0, 4)]))
    if kind == "count":
        return Layout(kind, length, 0, 0, "drop", draw(st.integers(0, 9)), *early)
    slide = draw(st.integers(1, length)) if kind == "range" else 0
    delay, late = draw(st.integers(0, 9)), draw(st.sampled_from(get_args(LatePolicy)))
    return Layout(kind, length, slide, delay, late, 0, *early, event_time=draw(st.booleans()))


happenings = st.lists(
    st.builds(
        Happening,
        st.sampled_from("ab"),
        st.integers(-6, 8),
        st.sampled_from([0, 0, 1, 2, 3, 14]),
        st.booleans(),
        st.sampled_from([0, 0, 0, 1, 2]),
        st.sampled_from([0, 0, 0, 3, 500]),
    ),
    max_size=25,
)
END_NS = 10_000


@settings(max_examples=150, deadline=None)
@given(layouts(), happenings)
def test_every_kind_emits_what_is_written_out_however_batches_are_cut(
    layout: Layout, happening: list[Happening]
) -> None:
    made, now, time, sent = application(layout), 0, 50, []
    written: dict[str, WrittenOut] = defaultdict(lambda: WrittenOut(layout))
    for id_, one in enumerate(happening):
        now, time = now + one.pause, time + one.step
        written[one.key].take(id_, time, now)
        sent.append(("Events", f"{one.key} {id_} {time}".encode(), now))
    for windows in written.values():
        windows.clock(END_NS)
    due = {key: windows.results for key, windows in written.items() if windows.results}
    late = {key: windows.late for key, windows in written.items() if windows.late}

    simulated = simulate(made, sent, until_ns=END_NS)
    assert results(simulated.by_sink[made.sinks[0].name]) == due
    is_held = layout.event_time and layout.kind != "count"
    held = sum(one.held for one in happening) if is_held else 0
    with mock.patch.object(clocks, "_FIRST_NS", 0):
        driven = drive(made, sent, happening, is_held=is_held)
    assert sum(one.open for one in driven.tally.metrics.windows.values()) == open_windows(driven)
    driven.restart()
    driven.batch([[tick(2 * len(sent), END_NS + held)._replace(held=((0, held),))]])
    assert driven.due_ns() is None
    assert results(driven.outputs[made.sinks[0].name]) == due
    assert not simulated.set_aside
    assert not driven.tally.set_aside
    assert driven.state() == simulated.state
    of_step = {("Events", "Shown"): sum(map(len, late.values()))} if late else {}
    assert driven.tally.late == of_step
    assert len(simulated.late) == sum(map(len, late.values()))
    if len(made.sinks) > 1:
        assert late_ids(simulated.by_sink[made.sinks[1].name]) == late
        assert late_ids(driven.outputs[made.sinks[1].name]) == late


def drive(
    made: Application, sent: list[Any], happening: list[Happening], *, is_held: bool
) -> Driven:
    driven, batch, number, before, held = Driven(made), list[Block](), 0, 0, 0
    for (_, payload, now), one in zip(sent, happening, strict=True):
        if one.cut:
            driven.batch([batch])
            batch = []
        if one.cut == 2:
            driven.restart()
        held += one.held if is_held else 0
        of_source = ((0, held),) if held else ()
        if one.ticks:
            batch.append(tick(number, (before + now) // 2 + held)._replace(held=of_source))
            number += 1
        framed = len(payload).to_bytes(4, "big") + payload
        batch.append(Block(number, 1, 0, now + held, framed, of_source))
        number, before = number + 1, now
    driven.batch([batch])
    return driven


def open_windows(driven: Driven) -> int:
    """How many windows the entities hold."""
    (partition,) = driven.program.partitions
    assert partition.windows is not None
    return sum(map(partition.windows.open_windows, driven.state()[partition.name].values()))


def results(outputs: list[bytes]) -> dict[str, list[Given]]:
    """By key, what was emitted."""
    found: dict[str, list[Given]] = defaultdict(list)
    for output in outputs:
        key, start, end, final, ids = output.decode().split(" ", 4)
        members = tuple(int(id_) for id_ in ids.strip("[]").split(",") if id_)
        found[key].append(Given(int(start), int(end), final == "True", members))
    return dict(found)


def late_ids(outputs: list[bytes]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for output in outputs:
        key, id_ = output.decode().split()
        found[key].append(int(id_))
    return dict(found)


def test_windows_that_close_beyond_all_times_have_a_time_that_can_be_stored() -> None:
    made = application(Layout("session", 10**19))
    driven = Driven(made)
    framed = (5).to_bytes(4, "big") + b"a 1 1"
    driven.batch([[Block(0, 1, 0, 0, framed)]])
    assert driven.due_ns() == 2**63 - 2
