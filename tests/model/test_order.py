"""Which sources are read in the order of time, and the times of their messages."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import wallaroo
from tests.gateway.harness import NOWHERE, U32
from wallaroo.cli.main import main
from wallaroo.connectors.python.resolve import CustomSource
from wallaroo.errors import ApplicationError
from wallaroo.model.application import Application
from wallaroo.model.order import Timeline, meeting_sources, merged, time_function
from wallaroo.resolution.application import resolve


class Counted(wallaroo.Aggregation[Any, list[int], int]):
    def initial_accumulator(self) -> list[int]:
        return [0]

    def update(self, message: Any, accumulator: list[int]) -> None:
        accumulator[0] += message is not None

    def combine(self, one: list[int], other: list[int]) -> list[int]:
        return [one[0] + other[0]]

    def output(self, key: Any, accumulator: list[int]) -> int:
        return accumulator[0] + int(key)


def time_of(message: bytes) -> int:
    return int(message)


def file(name: str, **options: Any) -> Any:
    config = wallaroo.FileSourceConfig(f"{name}.txt", bytes, "lines", **options)
    return wallaroo.source(name, config).key_by(lambda _message: 0)


def built(*pipelines: Any) -> Application:
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str))
    return resolve(wallaroo.build_application("order", *(one.to_sink(sink) for one in pipelines)))


BY_EVENT = wallaroo.range_windows(wallaroo.minutes(1)).with_event_time(time_of).over(Counted)
BY_ARRIVAL = wallaroo.range_windows(wallaroo.minutes(1)).over(Counted)


def test_sources_meet_in_steps_with_event_time_alone() -> None:
    @wallaroo.interval_join(
        name="near",
        before=wallaroo.seconds(1),
        after=wallaroo.seconds(1),
        left_time=time_of,
        right_time=time_of,
        delay=wallaroo.seconds(0),
    )
    def near(left: Any, right: Any) -> Any:
        return left, right

    @wallaroo.table_join(name="table")
    def table(left: Any, right: Any) -> Any:
        return left, right

    application = built(
        file("a").merge(file("b")).to(BY_EVENT),
        file("c").merge(file("d")).to(BY_ARRIVAL),
        file("e").join(file("f"), near),
        file("g").join(file("h"), table),
    )
    names = [source.name for source in application.sources]
    found = [{names[index] for index in meeting} for meeting in meeting_sources(application)]
    assert found == [{"a", "b"}, {"e", "f"}]


def test_sources_that_meet_where_others_do_are_together() -> None:
    first, second = file("a").merge(file("b")), file("c")
    application = built(
        first.to(BY_EVENT), second.merge(first).to(BY_EVENT), file("d").to(BY_EVENT)
    )
    names = [source.name for source in application.sources]
    found = [{names[index] for index in meeting} for meeting in meeting_sources(application)]
    assert found == [{"a", "b", "c"}, {"d"}]


def test_check_hints_at_sources_that_are_read_side_by_side() -> None:
    with_time, without = file("a", time=time_of), file("b")
    (hint,) = built(with_time.merge(without).to(BY_EVENT)).hints
    assert "'a' and 'b' meet" in hint
    assert "Give 'b' time=" in hint
    assert "test_order.py" in hint
    assert not built(file("a", time=time_of).to(BY_EVENT)).hints
    assert not built(file("a").to(BY_EVENT)).hints


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"time": 5}, "time is 5"),
        ({"time": lambda: 5}, "is called with (message)"),
        ({"idle": 5}, "the idle is 5, without a unit"),
        ({"idle": wallaroo.seconds(-1)}, "must not be negative"),
    ],
)
def test_mistakes_in_times_are_reported(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ApplicationError) as caught:
        built(file("a", **options))
    assert any(problem in one for one in caught.value.problems)


def source(name: str, time: Any) -> CustomSource:
    return CustomSource(name, U32, bytes, NOWHERE, None, time=time)  # type: ignore[arg-type]


def test_a_time_is_that_of_the_message_or_none() -> None:
    times = {b"a": 5, b"b": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), b"c": "noon"}
    found = time_function(source("s", times.__getitem__))
    assert found is not None
    assert [found(payload) for payload in (b"a", b"b", b"c", b"d")] == [5, 10**9, None, None]
    assert time_function(source("s", None)) is None


@given(st.lists(st.lists(st.integers(0, 50) | st.none(), max_size=8), max_size=4))
def test_merging_keeps_each_order_and_goes_by_time(logs: list[list[int | None]]) -> None:
    def payloads(log: list[int | None]) -> list[tuple[int | None, int]]:
        return [(at, number) for number, at in enumerate(log)]

    sources = [source(f"{number}", lambda found: found[0]) for number in range(len(logs))]
    sources = [
        CustomSource(one.name, U32, lambda found: found, NOWHERE, None, time=one.time)  # type: ignore[arg-type]
        for one in sources
    ]
    streams = [(one, iter(payloads(log))) for one, log in zip(sources, logs, strict=True)]
    reached = {one.name: Timeline() for one in sources}
    latest = [Timeline().latest]
    found: dict[str, list[Any]] = {one.name: [] for one in sources}
    for one, payload in merged(streams):
        found[one.name].append(payload)
        latest.append(reached[one.name].reached(payload[0]))
    assert latest == sorted(latest)
    assert [found[one.name] for one in sources] == [payloads(log) for log in logs]


def test_files_are_simulated_in_the_order_of_time(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n3\n70000000000\n")
    (tmp_path / "b.txt").write_text("2\n5\n80000000000\n")
    (tmp_path / "app.py").write_text(
        """
import wallaroo
from tests.model.test_order import BY_EVENT, time_of

def application_setup(args):
    a, b = (
        wallaroo.FileSourceConfig(f"{name}.txt", bytes, "lines", time=time_of) for name in "ab"
    )
    a, b = (
        wallaroo.source(name, one).key_by(lambda message: 0) for name, one in (("a", a), ("b", b))
    )
    sink = wallaroo.FileSinkConfig("out.txt", wallaroo.encoder(str), framing="lines")
    return wallaroo.build_application("files", a.merge(b).to(BY_EVENT).to_sink(sink))
"""
    )
    result = CliRunner().invoke(main, ["simulate", str(tmp_path / "app.py"), "--until", "100"])
    assert result.exit_code == 0, result.output
    assert result.stdout.split() == ["4", "2"]
    assert "late" not in result.stderr


@pytest.mark.parametrize(
    ("time", "outputs", "late"), [("time", ["4", "2"], False), ("None", ["2", "2"], True)]
)
def test_files_of_one_source_are_simulated_in_the_order_of_time(
    tmp_path: Path, time: str, outputs: list[str], late: bool
) -> None:
    (tmp_path / "a.csv").write_text("at\n1\n3\n70000000000\n")
    (tmp_path / "b.csv").write_text("at\n2\n5\n80000000000\n")
    (tmp_path / "app.py").write_text(
        f"""
import wallaroo
from tests.model.test_order import BY_EVENT

def number(row):
    return int(row["at"])

def time(number):
    return number

def application_setup(args):
    rows = wallaroo.CSVSourceConfig("*.csv", number, time={time})
    rows = wallaroo.source("rows", rows).key_by(lambda number: 0)
    sink = wallaroo.FileSinkConfig("out.txt", wallaroo.encoder(str), framing="lines")
    return wallaroo.build_application("files", rows.to(BY_EVENT).to_sink(sink))
"""
    )
    result = CliRunner().invoke(main, ["simulate", str(tmp_path / "app.py"), "--until", "100"])
    assert result.exit_code == 0, result.output
    assert result.stdout.split() == outputs
    assert ("late message" in result.stderr) == late
