"""Windows, held against windows that are written out one by one."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wallaroo.api.aggregations import Aggregation
from wallaroo.api.durations import EventTime, nanoseconds, seconds
from wallaroo.api.windows import EarlyResults, LatePolicy, range_windows
from wallaroo.model.windows import CountWindows, Late, RangeWindows, SessionWindows

Gathered = list[int]


class Gather(Aggregation[int, Gathered, Gathered]):
    def initial_accumulator(self) -> Gathered:
        return []

    def update(self, message: int, accumulator: Gathered) -> None:
        if message < 0:
            raise ValueError(message)
        accumulator.append(message)

    def combine(self, one: Gathered, other: Gathered) -> Gathered:
        return one + other

    def output(self, key: Any, accumulator: Gathered) -> Gathered | None:
        if key == "never":
            raise ValueError(key)
        return None if accumulator == [99] else sorted(accumulator)


class WrittenOut:
    """Every window on its own, and nothing clever."""

    def __init__(self, range_: int, slide: int, delay: int, late: LatePolicy) -> None:
        self.range, self.slide, self.delay, self.late = range_, slide, delay, late
        self.windows: dict[int, Gathered] = defaultdict(list)
        self.watermark: int | None = None

    def take(self, event: int) -> list[Gathered] | None:
        """What the message of time *event* makes come out; None if it is dropped."""
        if self.watermark is None:
            self.watermark = event
        holding = [s for s in self._starts() if s <= event < s + self.range]
        starts = [s for s in holding if self._is_open(s)]
        if not starts:
            if self.late == "drop":
                return None
            if self.late == "fire-per-message":
                return [[event]]
            starts = [min(filter(self._is_open, self._starts()))]
        for start in starts:
            self.windows[start].append(event)
        return self.advance(max(self.watermark, event))

    def _starts(self) -> list[int]:
        return [start for start in range(-200, 400) if start % self.slide == 0]

    def advance(self, watermark: int) -> list[Gathered]:
        self.watermark = watermark
        closed = sorted(start for start in self.windows if not self._is_open(start))
        return [sorted(self.windows.pop(start)) for start in closed]

    def close_by_clock(self, reached: int) -> list[Gathered]:
        """What a silence makes come out; time goes on only as far as windows close."""
        ends = [start + self.range + self.delay for start in self.windows]
        assert self.watermark is not None
        return self.advance(max([self.watermark, *(end for end in ends if end <= reached)]))

    def _is_open(self, start: int) -> bool:
        assert self.watermark is not None
        return start + self.range + self.delay > self.watermark


@st.composite
def layouts(draw: st.DrawFn) -> tuple[int, int, int, LatePolicy]:
    range_ = draw(st.integers(1, 12))
    slide = draw(st.integers(1, range_))
    late = draw(st.sampled_from(get_args(LatePolicy)))
    return range_, slide, draw(st.integers(0, 9)), late


def made_of(
    layout: tuple[int, int, int, LatePolicy], event_time: EventTime | None = None
) -> RangeWindows:
    range_, slide, delay, late = layout
    timed: dict[str, Any] = {"delay_ns": delay, "late": late, "event_time": event_time}
    return RangeWindows(range_, slide, **timed, aggregation=Gather())


@settings(max_examples=500)
@given(layouts(), st.lists(st.integers(0, 60) | st.tuples(st.integers(0, 30)), max_size=30))
def test_windows_are_as_if_each_were_written_out(
    layout: tuple[int, int, int, LatePolicy], happenings: list[int | tuple[int]]
) -> None:
    """Messages of random time, and silences of random length between them."""
    windows = made_of(layout, lambda event: event)
    entity, written = windows.new_entity(), WrittenOut(*layout)
    now = latest = 0
    for happening in happenings:
        if isinstance(happening, tuple):
            silence = now + happening[0]
            given_up = windows.tick(entity, "key", silence, _fail)
            if written.watermark is not None:
                reached = latest + silence - entity.seen_ns
                assert given_up == written.close_by_clock(reached)
            now = silence
            continue
        due = written.take(happening)
        if due is None:
            with pytest.raises(Late):
                windows.take(entity, "key", happening, now, _fail)
        else:
            assert windows.take(entity, "key", happening, now, _fail) == due
        latest = max(latest, entity.latest)
        assert windows.open_windows(entity) == len(written.windows)
    assert len(entity.panes) <= sum(layout[:3]) + 1, "what has closed is not kept"


@given(layouts(), st.lists(st.integers(0, 20), max_size=4))
def test_a_window_closes_exactly_when_it_is_due(
    layout: tuple[int, int, int, LatePolicy], pauses: list[int]
) -> None:
    windows, now = made_of(layout), 0
    entity = windows.new_entity()
    for pause in pauses:
        now += pause
        windows.take(entity, "key", now, now, _fail)
    while (due := windows.due_ns(entity)) is not None:
        assert windows.tick(entity, "key", due - 1, _fail) == []
        assert windows.tick(entity, "key", due, _fail) != []
    assert windows.is_disposable(entity), "nothing is kept of a key whose windows have closed"


def test_the_time_of_arrival_is_never_late_though_the_clock_runs_backwards() -> None:
    windows = RangeWindows(10, 10, aggregation=Gather())
    entity = windows.new_entity()
    assert windows.take(entity, "key", 1, 25, _fail) == []
    assert windows.take(entity, "key", 2, 5, _fail) == []
    assert windows.tick(entity, "key", 30, _fail) == [[1, 2]]


def test_a_message_that_raises_moves_nothing() -> None:
    windows = RangeWindows(10, 10, event_time=abs, aggregation=Gather())
    entity = windows.new_entity()
    windows.take(entity, "key", 1, 0, _fail)
    with pytest.raises(ValueError, match="-50"):
        windows.take(entity, "key", -50, 0, _fail)
    assert windows.take(entity, "key", 2, 0, _fail) == []
    assert windows.take(entity, "key", 10, 0, _fail) == [[1, 2]]


def test_a_window_whose_output_raises_is_told_and_the_others_close() -> None:
    windows = RangeWindows(10, 10, event_time=abs, aggregation=Gather())
    entity, told = windows.new_entity(), []
    windows.take(entity, "never", 1, 0, _fail)
    assert windows.take(entity, "never", 30, 0, lambda what, _error: told.append(what)) == []
    assert told == ["window [0, 10) ns of key 'never'"]
    assert set(entity.panes) == {30}


def test_an_event_time_that_is_no_whole_number_is_told() -> None:
    windows = RangeWindows(10, 10, event_time=lambda _: 1.5, aggregation=Gather())  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match=r"the event time is 1\.5; expected an int"):
        windows.take(windows.new_entity(), "key", 1, 0, _fail)


def test_none_is_no_output() -> None:
    windows = CountWindows(1, None, aggregation=Gather())
    assert windows.take(windows.new_entity(), "key", 99, 0, _fail) == []


@given(st.integers(1, 5), st.lists(st.integers(0, 90)))
def test_count_windows_give_an_output_every_so_many_messages(
    count: int, messages: list[int]
) -> None:
    windows = CountWindows(count, None, aggregation=Gather())
    entity = windows.new_entity()
    made = [windows.take(entity, "key", message, 0, _fail) for message in messages]
    full = len(messages) // count
    assert [output for outputs in made for output in outputs] == [
        sorted(messages[count * n : count * (n + 1)]) for n in range(full)
    ]
    assert windows.due_ns(entity) is None
    assert windows.is_disposable(entity) == (len(messages) % count == 0)


def test_a_count_window_that_is_not_full_closes_after_its_timeout() -> None:
    windows = CountWindows(3, 50, aggregation=Gather())
    entity = windows.new_entity()
    windows.take(entity, "key", 1, 100, _fail)
    windows.take(entity, "key", 2, 120, _fail)
    assert windows.due_ns(entity) == 170
    assert windows.tick(entity, "key", 169, _fail) == []
    assert windows.tick(entity, "key", 170, _fail) == [[1, 2]]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: range_windows(seconds(0)), "the range is 0 ns; it must be positive"),
        (
            lambda: range_windows(2.5),  # type: ignore[arg-type]
            r"the range is 2\.5, without a unit; write wallaroo\.seconds\(2\.5\)",
        ),
        (
            lambda: range_windows(nanoseconds(10)).with_slide(nanoseconds(11)),
            "must be positive and at most 10",
        ),
        (lambda: range_windows(seconds(10)).with_delay(seconds(-1)), "must not be negative"),
        (
            lambda: range_windows(seconds(10)).with_delay(seconds(1)).with_delay(seconds(1)),
            "with_delay has already been called",
        ),
        (
            lambda: range_windows(seconds(10)).with_late_data_policy("keep"),
            "'keep' is not a valid late data policy",
        ),
    ],
)
def test_windows_that_cannot_be_are_refused(wrong: Any, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        wrong()


def test_policies_have_the_names_of_both_spellings() -> None:
    spelt = range_windows(seconds(1)).with_late_data_policy("place_in_oldest_window")
    assert spelt.late == "place-in-oldest-window"


def _fail(what: str, error: BaseException) -> None:
    raise AssertionError(what) from error


def visits(delay: int, early: EarlyResults | None = None) -> SessionWindows:
    return SessionWindows(
        5, delay_ns=delay, event_time=lambda event: event, aggregation=Gather(), early=early
    )


def test_a_message_between_two_sessions_joins_them() -> None:
    windows = visits(delay=9)
    entity = windows.new_entity()
    for event in (1, 8, 5):
        assert windows.take(entity, "key", event, 0, _fail) == []
    assert windows.open_windows(entity) == 1
    assert windows.take(entity, "key", 22, 0, _fail) == [[1, 5, 8]]


def test_sessions_that_are_a_gap_apart_stay_apart() -> None:
    windows = visits(delay=9)
    entity = windows.new_entity()
    for event in (1, 11, 6):
        windows.take(entity, "key", event, 0, _fail)
    assert windows.open_windows(entity) == 3


def test_the_messages_of_joined_sessions_count_together_for_early_results() -> None:
    windows = visits(delay=99, early=EarlyResults(messages=3))
    entity = windows.new_entity()
    made = [windows.take(entity, "key", event, 0, _fail) for event in (4, 11, 8, 7, 1, 9)]
    assert made == [[], [], [[4, 8, 11]], [], [], [[1, 4, 7, 8, 9, 11]]]


def test_the_time_of_early_results_starts_anew_with_a_message_that_no_result_contains() -> None:
    windows = RangeWindows(
        10, 10, event_time=lambda event: event, aggregation=Gather(), early=EarlyResults(every_ns=4)
    )
    entity = windows.new_entity()
    assert windows.take(entity, "key", 1, 0, _fail) == []
    assert windows.take(entity, "key", 12, 2, _fail) == [[1]]
    assert windows.due_ns(entity) == 2 + 4
    assert windows.tick(entity, "key", 6, _fail) == [[12]]


def test_an_early_result_that_raises_is_told_and_the_window_goes_on() -> None:
    windows = RangeWindows(
        10, 10, event_time=abs, aggregation=Gather(), early=EarlyResults(messages=1)
    )
    entity, told = windows.new_entity(), []
    windows.take(entity, "never", 1, 0, lambda what, _error: told.append(what))
    assert told == ["early result of window [0, 10) ns of key 'never'"]
    assert windows.open_windows(entity) == 1


def test_without_early_results_entities_are_saved_as_ever() -> None:
    entity = RangeWindows(10, 10, event_time=abs, aggregation=Gather()).new_entity()
    reduced: Any = entity.__reduce_ex__(2)
    _, slots = reduced[2]
    assert [*slots] == ["watermark", "latest", "seen_ns", "next_close", "panes"]


def test_the_clock_moves_time_only_as_far_as_windows_close() -> None:
    windows = RangeWindows(10, 10, event_time=lambda event: event, aggregation=Gather())
    entity = windows.new_entity()
    windows.take(entity, "key", 3, 0, _fail)
    assert windows.tick(entity, "key", 1000, _fail) == [[3]]
    assert windows.take(entity, "key", 12, 1000, _fail) == [], "its window had not emitted"
    with pytest.raises(Late):
        windows.take(entity, "key", 9, 1000, _fail)


def test_a_late_message_does_not_end_a_silence_but_one_out_of_order_does() -> None:
    windows = RangeWindows(10, 10, event_time=lambda event: event, aggregation=Gather())
    entity = windows.new_entity()
    assert windows.take(entity, "key", 9, 0, _fail) == []
    assert windows.take(entity, "key", 15, 0, _fail) == [[9]]
    with pytest.raises(Late):
        windows.take(entity, "key", 5, 3, _fail)
    assert windows.due_ns(entity) == 5
    windows.take(entity, "key", 12, 3, _fail)
    assert windows.due_ns(entity) == 8
