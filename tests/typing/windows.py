"""Windows take the messages that their aggregation takes, and give its outputs."""

from datetime import datetime, timedelta
from typing import Any

import wallaroo
from wallaroo import count_windows, minutes, range_windows, session_windows


class Sum(wallaroo.Aggregation[int, list[int], str]):
    def initial_accumulator(self) -> list[int]:
        return [0]

    def update(self, message: int, accumulator: list[int]) -> None:
        accumulator[0] += message

    def combine(self, one: list[int], other: list[int]) -> list[int]:
        return [one[0] + other[0]]

    def output(self, key: Any, accumulator: list[int]) -> str | None:
        return f"{key}: {accumulator[0]}"


class Shown(wallaroo.Aggregation[int, list[int], float]):
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def initial_accumulator(self) -> list[int]:
        return [0]

    def update(self, message: int, accumulator: list[int]) -> None:
        accumulator[0] += message

    def combine(self, one: list[int], other: list[int]) -> list[int]:
        return [one[0] + other[0]]

    def output(self, key: Any, accumulator: list[int], window: wallaroo.Window) -> float:
        reveal_type(window.start)  # R: datetime
        return self.factor * accumulator[0]


class Half(wallaroo.Aggregation[int, list[int], str]):
    def initial_accumulator(self) -> list[int]:
        return [0]

    def update(self, message: str, accumulator: list[int]) -> None:  # E: supertype "Aggregation"
        accumulator[0] += len(message)


class Largest:
    """As in Wallaroo: an aggregation by its methods alone."""

    def initial_accumulator(self) -> list[int]:
        return []

    def update(self, message: int, accumulator: list[int]) -> None:
        accumulator[:] = [max([message, *accumulator])]

    def combine(self, one: list[int], other: list[int]) -> list[int]:
        return [max([*one, *other])] if one or other else []

    def output(self, key: Any, accumulator: list[int]) -> float | None:
        return accumulator[0] if accumulator else None


class LargestOfWindow(Largest):
    def output(self, key: Any, accumulator: list[int], *window: Any) -> float | None:
        return None


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> int:
    return int(payload)


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode_bool(payload: bytes) -> bool:
    return bool(payload)


@wallaroo.computation(name="text")
def text(number: int) -> str:
    return str(number)


numbers = wallaroo.source("Numbers", wallaroo.TCPSourceConfig("", 0, decode))
bools = wallaroo.source("Bools", wallaroo.TCPSourceConfig("", 0, decode_bool))
every_minute = range_windows(minutes(1)).with_slide(minutes(1)).over(Sum)
reveal_type(every_minute)  # R: Windowing[int, str]
reveal_type(numbers.to(every_minute))  # R: WindowedPipeline[str, int]
reveal_type(numbers.to(count_windows(5).over(Sum)))  # R: WindowedPipeline[str, int]
reveal_type(bools.to(every_minute))  # R: WindowedPipeline[str, bool]
reveal_type(numbers.to(every_minute).late())  # R: Pipeline[int]
numbers.to(text).late()  # E: "Pipeline[str]" has no attribute "late"
reveal_type(minutes(1) + minutes(2))  # R: Duration
reveal_type(3 * minutes(1))  # R: Duration
reveal_type(minutes(3) // minutes(1))  # R: int
reveal_type(minutes(3) // 2)  # R: Duration
sessions = session_windows(timedelta(minutes=5)).with_delay(minutes(1))
sessions = sessions.with_event_time(datetime.fromtimestamp).with_early_results(messages=3)
reveal_type(sessions.over(Shown(0.5)))  # R: Windowing[int, float]
reveal_type(numbers.to(sessions.over(Shown(0.5))))  # R: WindowedPipeline[float, int]
sessions.over(Shown)  # that it needs an argument is told when the application is built
range_windows(60)  # E: has incompatible type "int"; expected "Duration | timedelta"
numbers.to(text).to(every_minute)  # E: has incompatible type "Windowing[int, str]"
range_windows(minutes(1)).over(int)  # E: Argument 1 to "over" of "_Windows"
range_windows(minutes(1)).with_late_data_policy(1)  # E: has incompatible type "int"
reveal_type(range_windows(minutes(1)).over(Largest))  # R: Windowing[int, float]
reveal_type(numbers.to(count_windows(3).over(Largest())))  # R: WindowedPipeline[float, int]
reveal_type(numbers.to(count_windows(3).over(LargestOfWindow())))  # R: WindowedPipeline[float, int]
fives = count_windows(5)
reveal_type(numbers.to(fives.over(wallaroo.Count)).map(lambda r: r.value))  # R: Pipeline[int]
reveal_type(numbers.to(fives.over(wallaroo.Max(str))).map(lambda r: r.value))  # R: Pipeline[str]
reveal_type(numbers.to(fives.over(wallaroo.Mean())).map(lambda r: r.value))  # R: Pipeline[float]
top = numbers.to(fives.over(wallaroo.Top(2)))
reveal_type(top.map(lambda r: r.value))  # R: Pipeline[list[int]]
