"""Published examples of windows and sessions, of Bytewax, Flink and Quix Streams.

Input and results are those of their documentation; where a session is shown by the time of its last
message, that is its end here minus the gap.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import wallaroo
from wallaroo import Window
from wallaroo.api.builder import DeclaredApplication
from wallaroo.testing import simulate

MILLISECOND_NS = 10**6
LATER_NS = 10**18


class Listed(wallaroo.Aggregation[Any, list[Any], Any]):
    """Outputs what a function makes of key, messages and window, in milliseconds."""

    def __init__(self, shown: Any) -> None:
        self.shown = shown

    def initial_accumulator(self) -> list[Any]:
        return []

    def update(self, message: Any, accumulator: list[Any]) -> None:
        accumulator.append(message)

    def combine(self, one: list[Any], other: list[Any]) -> list[Any]:
        return one + other

    def output(self, key: Any, accumulator: list[Any], window: Window) -> Any:
        start, end = window.start_ns // MILLISECOND_NS, window.end_ns // MILLISECOND_NS
        return self.shown(key, accumulator, start, end, window.is_final)


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> Any:
    return json.loads(payload)


@wallaroo.encoder
def encode(message: Any) -> str:
    return json.dumps(message)


def timestamp(message: Any) -> int:
    milliseconds: int = message["timestamp"]
    return milliseconds * MILLISECOND_NS


def results(windows: Any, shown: Any, messages: list[Any], key: str = "key") -> list[Any]:
    """What is emitted once all *messages* have come at once and then none for long."""
    pipeline = wallaroo.source("in", wallaroo.TCPSourceConfig("", 0, decode))
    pipeline = pipeline.key_by(lambda message: message.get(key))
    ended = pipeline.to(windows.over(Listed(shown)))
    application: DeclaredApplication = wallaroo.build_application(
        "Peer", ended.to_sink(wallaroo.TCPSinkConfig("", 0, encode))
    )
    sent = [("in", json.dumps(message).encode()) for message in messages]
    result = simulate(application, sent, until_ns=LATER_NS)
    assert not result.set_aside
    assert not result.late
    return [json.loads(output) for output in result.outputs]


def test_flinks_sessions_of_three_milliseconds() -> None:
    """The example SessionWindowing: sessions of three keys, with the sum of their ones."""
    given = [("a", 1), ("b", 1), ("b", 3), ("b", 5), ("c", 6), ("a", 10), ("c", 11)]
    messages = [{"key": key, "timestamp": time, "count": 1} for key, time in given]
    windows = wallaroo.session_windows(timedelta(milliseconds=3)).with_event_time(timestamp)

    def summed(key: str, members: list[Any], start: int, *_: Any) -> list[Any]:
        return [key, start, sum(member["count"] for member in members)]

    due = [["a", 1, 1], ["a", 10, 1], ["b", 1, 3], ["c", 6, 1], ["c", 11, 1]]
    assert sorted(results(windows, summed, messages)) == due


def test_bytewaxs_windows_of_ten_seconds() -> None:
    """The example of collecting and windowing, aligned to the start of 2022."""
    start = datetime(2022, 1, 1, tzinfo=UTC)
    given = [(0, "a"), (4, "a"), (5, "b"), (8, "a"), (12, "a"), (13, "a"), (14, "b")]
    messages = [{"time": second, "user": user, "val": 1} for second, user in given]
    windows = wallaroo.range_windows(timedelta(seconds=10)).with_event_time(
        lambda message: start + timedelta(seconds=message["time"])
    )
    first_ms = int(start.timestamp() * 1000)

    def collected(user: str, members: list[Any], start: int, end: int, _final: bool) -> list[Any]:
        times = [member["time"] for member in members]
        return [user, (start - first_ms) // 1000, (end - first_ms) // 1000, times]

    assert sorted(results(windows, collected, messages, "user")) == [
        ["a", 0, 10, [0, 4, 8]],
        ["a", 10, 20, [12, 13]],
        ["b", 0, 10, [5]],
        ["b", 10, 20, [14]],
    ]


def test_bytewaxs_sessions_of_half_an_hour() -> None:
    """The example of the page on windowing; 1:00 and 1:30 are a gap apart, and two sessions."""
    minutes = {"1A": 0, "1B": 10, "1C": 15, "2A": 50, "2B": 60, "3A": 90}
    messages = [{"name": name, "timestamp": minute * 60_000} for name, minute in minutes.items()]
    windows = wallaroo.session_windows(wallaroo.minutes(30)).with_event_time(timestamp)

    def named(_key: Any, members: list[Any], start: int, end: int, _final: bool) -> list[Any]:
        length = end - start - 30 * 60_000  # without the gap
        return [start // 60_000, length // 60_000, [member["name"] for member in members]]

    assert results(windows, named, messages) == [
        [0, 15, ["1A", "1B", "1C"]],
        [50, 10, ["2A", "2B"]],
        [90, 0, ["3A"]],
    ]


def test_bytewaxs_lists_of_three_or_of_what_came_in_ten_seconds() -> None:
    windows = wallaroo.count_windows(3).with_timeout(timedelta(seconds=10))

    def numbers(_key: Any, members: list[Any], *_: Any) -> list[Any]:
        return [member["number"] for member in members]

    messages = [{"number": number} for number in range(10)]
    assert results(windows, numbers, messages) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def test_quix_averages_of_an_hour_with_each_message() -> None:
    given = [(30, 100), (29, 200), (28, 300)]
    messages = [{"temperature": value, "timestamp": time} for value, time in given]
    windows = wallaroo.range_windows(timedelta(hours=1)).with_event_time(timestamp)

    def mean(_key: Any, members: list[Any], start: int, end: int, final: bool) -> Any:
        average = sum(member["temperature"] for member in members) / len(members)
        return None if final else {"avg_temperature": average, "start": start, "end": end}

    assert results(windows.with_early_results(messages=1), mean, messages) == [
        {"avg_temperature": 30, "start": 0, "end": 3600000},
        {"avg_temperature": 29.5, "start": 0, "end": 3600000},
        {"avg_temperature": 29, "start": 0, "end": 3600000},
    ]


def test_quix_batches_of_three_messages() -> None:
    messages = [{"data": value} for value in (100, 50, 200)]

    def data(_key: Any, members: list[Any], *_: Any) -> Any:
        return {"data": [member["data"] for member in members]}

    assert results(wallaroo.count_windows(3), data, messages) == [{"data": [100, 50, 200]}]


def test_quix_session_of_a_visitor() -> None:
    given = [("page_view", 1000), ("click", 800000), ("page_view", 1200000), ("purchase", 2000000)]
    messages = [{"user_action": action, "timestamp": time} for action, time in given]
    gap = timedelta(minutes=30)
    windows = wallaroo.session_windows(gap).with_delay(timedelta(minutes=5))

    def actions(_key: Any, members: list[Any], start: int, end: int, _final: bool) -> Any:
        last = end - gap // timedelta(milliseconds=1)
        done = [member["user_action"] for member in members]
        return {"start": start, "end": last + 1, "action_count": len(members), "actions": done}

    assert results(windows.with_event_time(timestamp), actions, messages) == [
        {
            "start": 1000,
            "end": 2000001,
            "action_count": 4,
            "actions": ["page_view", "click", "page_view", "purchase"],
        }
    ]


def test_quix_session_with_a_result_for_each_purchase() -> None:
    given = [(25, 1000), (50, 5000), (50, 8000)]
    messages = [{"amount": amount, "timestamp": time} for amount, time in given]
    windows = wallaroo.session_windows(wallaroo.seconds(10)).with_event_time(timestamp)

    def total(_key: Any, members: list[Any], start: int, end: int, final: bool) -> Any:
        amount = sum(member["amount"] for member in members)
        return None if final else [start, end - 10_000 + 1, amount, len(members)]

    assert results(windows.with_early_results(messages=1), total, messages) == [
        [1000, 1001, 25, 1],
        [1000, 5001, 75, 2],
        [1000, 8001, 125, 3],
    ]
