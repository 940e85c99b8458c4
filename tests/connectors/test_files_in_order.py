"""Rows of several files in the order of time: what goes first, and where each file is read on."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.connectors.child_gateway import child_gateway
from tests.gateway.harness import U32
from tests.gateway.stand_in import StandIn, journal_of
from tests.helpers import PATIENCE_S
from wallaroo.connectors.csv.source import CSVRows
from wallaroo.connectors.parquet.source import ParquetRows
from wallaroo.connectors.row_files import RowFiles
from wallaroo.errors import RuntimeFailure
from wallaroo.model.endpoints import TimesOf
from wallaroo.model.order import Timeline
from wallaroo.wire.rows import unpacked_row

Times = Sequence[int | None]
Row = tuple[str, int]
"""File of a row, and its number there."""


def csv_file(directory: Path, name: str, times: Times) -> None:
    rows = (f"{name},{n},{'' if at is None else at}\n" for n, at in enumerate(times))
    (directory / f"{name}.csv").write_text("file,n,at\n" + "".join(rows))


def parquet_file(directory: Path, name: str, times: Times) -> None:
    columns = {"file": [name] * len(times), "n": [*range(len(times))]}
    table = pa.table({**columns, "at": pa.array(times, pa.int64())})
    pq.write_table(table, directory / f"{name}.parquet", row_group_size=3)


def csv(directory: Path, *, follow: bool = False) -> RowFiles:
    return CSVRows(directory, ",", None, 1000, follow=follow)


def parquet(directory: Path, *, follow: bool = False) -> RowFiles:
    return ParquetRows(directory, None, follow=follow)


def times_of(payloads: Sequence[bytes]) -> Times:
    found = (unpacked_row(payload)["at"] for payload in payloads)
    return [None if at in {None, ""} else int(at) for at in found]


def row(payload: bytes) -> Row:
    found = unpacked_row(payload)
    return found["file"], int(found["n"])


def read(
    source: RowFiles, position: Any = None, times: TimesOf | None = times_of
) -> list[tuple[Row, Any]]:
    items = [*source.read(position, times)]
    return [(row(item[0]), item[1]) for item in items if item is not None]


def in_order(files: dict[str, Times]) -> list[Row]:
    """The rows of *files* by the latest time that their file has reached."""
    found = []
    for name, times in files.items():
        timeline = Timeline()
        found += [(timeline.reached(at), name, n) for n, at in enumerate(times)]
    return [(name, n) for _, name, n in sorted(found)]


@pytest.mark.parametrize(("make", "open_"), [(csv_file, csv), (parquet_file, parquet)])
@settings(max_examples=25, deadline=None)
@given(logs=st.lists(st.lists(st.integers(0, 20) | st.none(), max_size=7), max_size=5))
def test_rows_go_by_the_latest_time_of_their_file_and_each_file_is_read_on_where_it_was(
    make: Callable[[Path, str, Times], None],
    open_: Callable[[Path], RowFiles],
    logs: list[list[int | None]],
) -> None:
    files: dict[str, Times] = {"abcde"[number]: times for number, times in enumerate(logs)}
    with tempfile.TemporaryDirectory() as name:
        for file, times in {"0": [], **files}.items():
            make(Path(name), file, times)
        source = open_(Path(name))
        whole = read(source)
        due = [found for found, _ in whole]
        assert due == in_order(files)
        for number, (_, position) in enumerate(whole, 1):
            for given_times in (times_of, None):  # the application may have been given another time
                rest = [found for found, _ in read(source, position, given_times)]
                assert sorted(rest, key=itemgetter(0)) == sorted(due[number:], key=itemgetter(0))


def test_a_time_that_is_given_later_does_not_read_a_row_twice(tmp_path: Path) -> None:
    csv_file(tmp_path, "a", [5, 6])
    csv_file(tmp_path, "b", [1, 2, 7])
    csv_file(tmp_path, "c", [3])
    positions = [position for _, position in read(csv(tmp_path), times=None)]
    rest = [found for found, _ in read(csv(tmp_path), positions[2])]
    assert rest == [("b", 1), ("c", 0), ("b", 2)]


def test_of_many_files_the_first_ones_are_open_and_the_next_joins_when_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CSVRows, "at_once", 2)
    csv_file(tmp_path, "a", [1, 4])
    csv_file(tmp_path, "b", [2, 6])
    csv_file(tmp_path, "c", [3, 5])
    whole = read(csv(tmp_path))
    assert [found for found, _ in whole] == [
        *(("a", 0), ("b", 0), ("a", 1)),
        *(("c", 0), ("c", 1), ("b", 1)),
    ]
    assert whole[3][1][0::2] == ("c.csv", ("b.csv", (16,)))
    for number, (_, position) in enumerate(whole, 1):
        assert read(csv(tmp_path), position) == whole[number:]


def test_files_that_are_finished_may_be_removed_and_others_may_not(tmp_path: Path) -> None:
    for name, times in {"a": [1, 2, 9], "b": [3], "c": [4, 8]}.items():
        csv_file(tmp_path, name, times)
    whole = read(csv(tmp_path))
    position = dict(whole)["c", 0]
    (tmp_path / "b.csv").unlink()
    assert read(csv(tmp_path), position) == whole[4:]
    (tmp_path / "a.csv").unlink()
    with pytest.raises(RuntimeFailure, match=r"a\.csv is gone, but only a part of it is known"):
        read(csv(tmp_path), position)


def test_files_that_are_followed_join_and_the_last_one_may_grow(tmp_path: Path) -> None:
    csv_file(tmp_path, "a", [1, 4])
    csv_file(tmp_path, "b", [2])
    following: Any = csv(tmp_path, follow=True).read(None, times_of)
    with contextlib.closing(following):
        assert [row(next(following)[0]) for _ in range(3)] == [("a", 0), ("b", 0), ("a", 1)]
        assert next(following) is None
        csv_file(tmp_path, "c", [7])
        csv_file(tmp_path, "d", [5, 8])
        for name in "ab":
            (tmp_path / f"{name}.csv").unlink()
        assert row(next(following)[0]) == ("d", 0)
        assert row(next(following)[0]) == ("c", 0)
        payload, position = next(following)
        assert row(payload) == ("d", 1)
        assert next(following) is None
    csv_file(tmp_path, "d", [5, 8, 9])
    assert [found for found, _ in read(csv(tmp_path), position)] == [("d", 2)]


APP = """
import wallaroo
from tests.model.test_order import BY_EVENT

def time_of(row):
    return int(row["at"])

def application_setup(args):
    rows = wallaroo.CSVSourceConfig("in/*.csv", time=time_of)
    rows = wallaroo.source("Rows", rows).key_by(lambda row: 0)
    sink = wallaroo.FileSinkConfig("out.txt", wallaroo.encoder(str), framing="lines")
    return wallaroo.build_application("merged", rows.to(BY_EVENT).to_sink(sink))
"""
ROWS, KILLS = 8_000, 2


def test_a_gateway_that_is_killed_reads_each_row_once_and_in_the_order_of_time() -> None:
    with tempfile.TemporaryDirectory() as name, StandIn.at(name):
        directory = Path(name)  # short, as the name of a Unix socket must be
        (directory / "app.py").write_text(APP)
        (directory / "in").mkdir()
        for number, file in enumerate("abc"):
            csv_file(directory / "in", file, range(number, 3 * ROWS, 3))
        for turn in range(KILLS):
            with child_gateway(directory) as (client, _):
                assert client.wait_until_accepted("Rows", 1 + 4000 * turn, PATIENCE_S)
        with child_gateway(directory) as (client, _):
            assert client.wait_until_accepted("Rows", 3 * ROWS, PATIENCE_S)
            client.stop_accepting()
            read = [
                int(json.loads(payload)["at"])
                for chunk in journal_of(directory / "state")
                for payload in U32.split(chunk.data)
            ]
        assert read == [*range(3 * ROWS)]
