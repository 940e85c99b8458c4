"""Rows of files: read on from behind any of them, whatever is in them."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import tempfile
import tracemalloc
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wallaroo.connectors.csv.source import CSVRows
from wallaroo.connectors.parquet import source as module
from wallaroo.connectors.parquet.source import ParquetRows
from wallaroo.connectors.row_files import RowFiles
from wallaroo.errors import FrameError, RuntimeFailure
from wallaroo.wire.rows import decoding_rows, unpacked_row

DECODE = decoding_rows(dict)


def rows_of_csv(path: Path, *, limit: int = 1000, follow: bool = False, **how: Any) -> CSVRows:
    return CSVRows(path, how.get("delimiter", ","), how.get("columns"), limit, follow=follow)


def parquet(path: Path, columns: Sequence[str] | None = None, *, follow: bool = False) -> RowFiles:
    return ParquetRows(path, columns, follow=follow)


def read(source: RowFiles, position: Any = None) -> list[tuple[bytes, Any]]:
    items = list(source.read(position))
    assert None not in items
    return [item for item in items if item is not None]


def values(source: RowFiles, position: Any = None) -> list[Any]:
    return [DECODE(payload) for payload, _ in read(source, position)]


def resumes_anywhere(source: RowFiles) -> None:
    whole = read(source)
    for number, (_, position) in enumerate(whole):
        assert read(source, position) == whole[number + 1 :]


TEXTS = st.text('ab,;"\n è', max_size=6)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.lists(TEXTS, min_size=2, max_size=2), max_size=6), min_size=1, max_size=3),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([",", ";"]),
    st.booleans(),
)
def test_csv_as_python_writes_it_is_read_on_from_any_row(
    files: list[list[list[str]]], end: str, delimiter: str, with_header: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        for number, rows in enumerate(files):
            text = io.StringIO()
            writer = csv.writer(text, delimiter=delimiter, lineterminator=end)
            writer.writerows([["a", "b"], *rows] if with_header else rows)
            data = text.getvalue().encode()
            Path(name, f"{number}.csv").write_bytes(data)
        source = rows_of_csv(
            Path(name), delimiter=delimiter, columns=None if with_header else ["a", "b"]
        )
        due = [dict(zip("ab", row, strict=True)) for rows in files for row in rows]
        assert values(source) == due
        resumes_anywhere(source)


def test_a_file_of_csv_may_have_a_mark_quotes_and_no_last_line_feed(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_bytes(b'\xef\xbb\xbf"a",b\r\n1,5" pipe\n\n"x\r\n\ny","say ""hi"""\n3,4')
    source = rows_of_csv(file)
    assert values(source) == [
        {"a": "1", "b": '5" pipe'},
        {"a": "x\r\n\ny", "b": 'say "hi"'},
        {"a": "3", "b": "4"},
    ]
    resumes_anywhere(source)
    assert str(source) == f"file {file}"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"1\n", "orders.csv, before byte 6: it has 1 column instead of 2: '1\\n'"),
        (b"1,2,3\n", "it has 3 columns instead of 2"),
        (b"1,\xff\n", "it is not UTF-8: '1,\\\\xff\\n'"),
        (b'"1"2,3\n', "',' expected after '\"'"),
        (b'1,"2\n', "a quote is not closed"),
    ],
)
def test_rows_that_are_none_are_told_and_the_others_are_read(
    tmp_path: Path, data: bytes, problem: str
) -> None:
    file = tmp_path / "orders.csv"
    file.write_bytes(b"a,b\n" + data + b"5,6\n7,8\n")
    source = rows_of_csv(file)
    (bad, _), *good = read(source)
    assert [unpacked_row(payload) for payload, _ in good] == [
        {"a": "5", "b": "6"},
        {"a": "7", "b": "8"},
    ]
    with pytest.raises(ValueError, match=r"orders\.csv, before byte") as raised:
        DECODE(bad)
    assert problem in str(raised.value)
    resumes_anywhere(source)


def test_a_quote_that_is_not_closed_spoils_one_line_of_a_large_file(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text('a,b\n1,"2\n' + "".join(f"{n},x\n" for n in range(100)))
    source = rows_of_csv(file, limit=50)
    _, *good = read(source)
    assert [unpacked_row(payload)["a"] for payload, _ in good] == [str(n) for n in range(100)]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"a,a", r"the first row is \['a', 'a'\]; expected a different name for each column"),
        (b"a,", "expected a different name for each column"),
        (b'a,"b', "the first row, which names the columns, cannot be read: a quote is not closed"),
        (b"\xff\xfea", "the first row, which names the columns, cannot be read: it is not UTF-8"),
    ],
)
def test_a_first_row_without_names_ends_the_source(
    tmp_path: Path, header: bytes, reason: str
) -> None:
    (tmp_path / "orders.csv").write_bytes(header + b"\n1,2\n")
    with pytest.raises(FrameError, match=reason):
        read(rows_of_csv(tmp_path / "orders.csv"))


def test_a_table_with_the_index_that_pandas_writes_is_read(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    table.to_csv(tmp_path / "table.csv")
    source = rows_of_csv(tmp_path / "table.csv")
    assert values(source) == [{"": "0", "a": "1", "b": "x"}, {"": "1", "a": "2", "b": "y"}]
    resumes_anywhere(source)


@pytest.mark.parametrize("begin", ["\n", "\r\n\n", "\ufeff\n"])
def test_empty_lines_before_the_names_of_columns_are_ignored(tmp_path: Path, begin: str) -> None:
    file = tmp_path / "orders.csv"
    file.write_bytes(f"{begin}a,b\n1,2\n\n3,4\n".encode())
    source = rows_of_csv(file)
    assert values(source) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    resumes_anywhere(source)


def test_a_file_of_csv_that_is_followed_gives_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_bytes(b"a,b\n1,2\n3")
    following: Any = rows_of_csv(file, follow=True).read(None)
    with contextlib.closing(following), file.open("ab", buffering=0) as more:
        assert DECODE(next(following)[0]) == {"a": "1", "b": "2"}
        assert next(following) is None
        more.write(b',"4\n')
        assert next(following) is None
        more.write(b'5"\n6,7\n')
        found, (name, (offset, *_)) = next(following)
        assert (DECODE(found), name, offset) == ({"a": "3", "b": "4\n5"}, "orders.csv", 16)
        assert DECODE(next(following)[0]) == {"a": "6", "b": "7"}


def test_a_file_of_csv_may_grow_between_runs_and_not_shrink(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("a\n1\n")
    source = rows_of_csv(file)
    (_, position), *_ = read(source)
    file.write_text("a\n1\n2\n")
    assert values(source, position) == [{"a": "2"}]
    file.write_text("a\n")
    with pytest.raises(RuntimeFailure, match="has 2 bytes, but 4 bytes of it have already been"):
        read(source, position)


def write(file: Path, rows: list[dict[str, Any]], group: int = 3) -> None:
    pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=group)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=3), st.integers(1, 5), st.integers(1, 4))
def test_parquet_is_read_on_from_any_row_of_any_group(
    counts: list[int], group: int, batch: int
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BATCH_ROWS", batch)
        for number, count in enumerate(counts):
            table = pa.table({"file": [number] * count, "row": [*range(count)]})
            pq.write_table(table, Path(name, f"{number}.parquet"), row_group_size=group)
        source = parquet(Path(name))
        assert values(source) == [
            {"file": file, "row": row} for file, count in enumerate(counts) for row in range(count)
        ]
        resumes_anywhere(source)
        assert values(parquet(Path(name), ["row"])) == [
            {"row": row} for count in counts for row in range(count)
        ]


def test_values_of_parquet_are_those_of_python(tmp_path: Path) -> None:
    at = datetime(2026, 7, 1, 12, tzinfo=UTC)
    row = {"n": 1, "x": 0.5, "t": "è", "d": Decimal("1.20"), "at": at, "b": b"\0", "l": [1, None]}
    file = tmp_path / "one.parquet"
    write(file, [row | {"s": {"in": "side"}, "none": None}])
    assert values(parquet(file)) == [row | {"s": {"in": "side"}, "none": None}]
    times = pa.array([1_000_000_001], pa.timestamp("ns"))
    maps = pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8()))
    pq.write_table(pa.table({"at": times, "m": maps}), file)
    assert values(parquet(file)) == [{"at": datetime(1970, 1, 1, 0, 0, 1), "m": [["k", 1]]}]


def test_later_files_are_waited_for_and_hidden_ones_are_not_read(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", [{"n": 1}])
    following: Any = parquet(tmp_path, follow=True).read(None)
    with contextlib.closing(following):
        payload, position = next(following)
        assert DECODE(payload) == {"n": 1}
        assert next(following) is None
        write(tmp_path / ".2.parquet", [{"n": 0}])
        write(tmp_path / "0.parquet", [{"n": 0}])  # before one that was read
        (tmp_path / "3.txt").write_text("no")
        assert next(following) is None
        (tmp_path / "1.parquet").unlink()  # it was read as a whole
        write(tmp_path / "2.parquet", [{"n": 2}, {"n": 3}])
        assert DECODE(next(following)[0]) == {"n": 2}
    assert values(parquet(tmp_path), position) == [{"n": 2}, {"n": 3}]


def test_a_file_that_is_gone_before_it_was_read_is_told(tmp_path: Path) -> None:
    for name in ("1.parquet", "2.parquet"):
        write(tmp_path / name, [{"n": 1}, {"n": 2}])
    (_, position), *_ = read(parquet(tmp_path))
    (tmp_path / "1.parquet").unlink()
    with pytest.raises(RuntimeFailure, match="is gone, but only a part of it is known to be read"):
        read(parquet(tmp_path), position)


@pytest.mark.parametrize("blank", ["\n", "\r\n\r\n", "\n" * 70_000])
def test_a_file_that_ends_with_blank_lines_may_be_removed_when_it_was_read(
    tmp_path: Path, blank: str
) -> None:
    file = tmp_path / "1.csv"
    file.write_text(f"n\n1\n{blank}2\n{blank}")
    (tmp_path / "2.csv").write_text("n\n3\n")
    *_, (_, position), _ = read(rows_of_csv(tmp_path))
    file.unlink()
    assert values(rows_of_csv(tmp_path), position) == [{"n": "3"}]


def test_a_directory_or_file_may_have_a_name_like_a_pattern(tmp_path: Path) -> None:
    directory = tmp_path / "in [1]" / "a*b"
    directory.mkdir(parents=True)
    (directory / "x.csv").write_text("n\n1\n")
    (directory / "y[2].csv").write_text("n\n2\n")
    one, two = {"n": "1"}, {"n": "2"}
    assert values(rows_of_csv(directory / "x.csv")) == [one]
    assert values(rows_of_csv(directory / "y[2].csv")) == [two]
    assert values(rows_of_csv(directory)) == values(rows_of_csv(directory / "*.csv")) == [one, two]
    assert values(rows_of_csv(directory.parent / "*" / "[xz].csv")) == [one]


def test_a_cell_of_many_lines_is_read_again_only_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, calls, reader = tmp_path / "1.csv", [0], csv.reader

    def counted(*args: Any, **how: Any) -> Any:
        calls[0] += 1
        return reader(*args, **how)

    cell = "{\n" + '  ""k"": ""v"",\n' * 5_000 + '  ""it is 5\\"" long"": 1\n}'
    file.write_text(f'n,m\n1,"{cell}"\n2,b\n')
    monkeypatch.setattr(csv, "reader", counted)
    assert values(rows_of_csv(file, limit=1 << 20)) == [
        {"n": "1", "m": cell.replace('""', '"')},
        {"n": "2", "m": "b"},
    ]
    assert calls[0] < 40


def test_a_record_of_several_lines_that_is_not_utf_8_is_one_dead_letter(tmp_path: Path) -> None:
    file = tmp_path / "1.csv"
    file.write_bytes(b'n\n"a\xe8\nb"\n2\n')
    (bad, _), (good, _) = read(rows_of_csv(file))
    with pytest.raises(ValueError, match="it is not UTF-8"):
        DECODE(bad)
    assert DECODE(good) == {"n": "2"}


def test_a_pattern_names_files_in_order(tmp_path: Path) -> None:
    for name in ("b-2.csv", "a-1.csv", "b-1.csv"):
        (tmp_path / name).write_text(f"n\n{name}\n")
    source = rows_of_csv(tmp_path / "b-*.csv")
    assert values(source) == [{"n": "b-1.csv"}, {"n": "b-2.csv"}]
    assert str(source) == f"files {tmp_path}/b-*.csv"


@pytest.mark.parametrize(
    ("path", "start"),
    [
        ("in/*.csv", "directory {}/in contains no file that the pattern '*.csv' matches; "),
        ("in", "directory {}/in contains no file whose name ends with .csv; "),
        ("gone/*/a.csv", "{}/gone, which does not exist, contains no file that the pattern '*/a.c"),
    ],
)
def test_a_path_that_names_no_file_is_an_error_unless_files_may_follow(
    tmp_path: Path, path: str, start: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "_hidden.csv").write_text("n\n1\n")
    with pytest.raises(RuntimeFailure) as raised:
        read(rows_of_csv(tmp_path / path))
    assert str(raised.value).startswith(start.format(tmp_path))
    assert str(raised.value).endswith("; correct the path, or set follow=True to wait for files")
    following = rows_of_csv(tmp_path / path, follow=True).read(None)
    assert next(following) is None


def test_files_that_were_read_may_all_be_removed(tmp_path: Path) -> None:
    file = tmp_path / "1.csv"
    file.write_text("n\n1\n")
    (_, position), *_ = read(rows_of_csv(tmp_path))
    file.unlink()
    assert read(rows_of_csv(tmp_path), position) == []


@pytest.mark.parametrize(
    ("pattern", "due"),
    [
        ("*/part.csv", ["1", "2"]),
        ("day=[12]/*.csv", ["1", "2"]),
        ("**/*.csv", ["1", "2", "0"]),
        ("day=2/**/part.csv", ["2"]),
    ],
)
def test_files_of_several_directories_may_have_the_same_name(
    tmp_path: Path, pattern: str, due: list[str]
) -> None:
    for name in ("part.csv", "day=1/part.csv", "day=2/part.csv", "day=3/_temporary/part.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"n\n{name[4:5] if '/' in name else 0}\n")
    source = rows_of_csv(tmp_path / pattern)
    assert values(source) == [{"n": n} for n in due]
    resumes_anywhere(source)


@pytest.mark.parametrize(
    ("content", "columns", "reason"),
    [(b"no parquet", None, "is not a Parquet file"), (None, ["m", "n"], "has no column 'm'")],
)
def test_what_cannot_be_read_ends_the_source(
    tmp_path: Path, content: bytes | None, columns: list[str] | None, reason: str
) -> None:
    file = tmp_path / "one.parquet"
    write(file, [{"n": 1}])
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(FrameError, match=reason):
        read(parquet(file, columns))


def test_a_value_that_python_cannot_have_is_a_dead_letter_and_the_rows_around_it_are_read(
    tmp_path: Path,
) -> None:
    far = pa.array([0, 2**62, 5], pa.timestamp("us"))
    latin = pa.array([b"\xe8", b"b", b"c"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"n": [0, 1, 2], "at": far, "text": latin}), tmp_path / "1.parquet")
    write(tmp_path / "2.parquet", [{"n": 3}])
    source = parquet(tmp_path, ["n", "at"])
    (first, _), (second, _), (third, _), *_ = read(parquet(tmp_path / "1.parquet"))
    for payload, told in ((first, "row 1: column 'text'"), (second, "row 2: column 'at' has no v")):
        with pytest.raises(ValueError, match=f"1.parquet, row group 0, {told}"):
            DECODE(payload)
    assert DECODE(third)["text"] == "c"
    with pytest.raises(FrameError, match=r"2.parquet has no column 'at'"):
        read(source)
    resumes_anywhere(parquet(tmp_path))


def test_a_row_group_that_is_damaged_ends_the_source_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "one.parquet"
    table = pa.table({"n": [f"{n * n}" for n in range(400)]})
    pq.write_table(table, file, row_group_size=200, compression="gzip", use_dictionary=False)
    page = pq.ParquetFile(file).metadata.row_group(1).column(0).data_page_offset
    damaged = bytearray(file.read_bytes())
    damaged[page + 60 : page + 90] = bytes(30)
    file.write_bytes(damaged)
    found = parquet(file).read(None)
    assert [DECODE(item[0])["n"] for item in itertools.islice(found, 200) if item][-1] == "39601"
    with pytest.raises(FrameError, match=r"one.parquet cannot be read from row group 1 on: "):
        next(found)


def test_a_column_with_a_dot_in_its_name_is_read_alone(tmp_path: Path) -> None:
    write(tmp_path / "one.parquet", [{"a.b": 1, "a": {"b": 2}, "c": 3}])
    assert values(parquet(tmp_path, ["c", "a.b"])) == [{"c": 3, "a.b": 1}]


def test_columns_of_the_same_name_are_refused_unless_they_are_not_read(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["x", "y", "x"])
    pq.write_table(table, tmp_path / "one.parquet")
    with pytest.raises(FrameError, match="has several columns of the name 'x'"):
        read(parquet(tmp_path))
    assert values(parquet(tmp_path, ["y"])) == [{"y": 2}]


def test_a_file_of_parquet_that_has_become_shorter_is_told(tmp_path: Path) -> None:
    file = tmp_path / "one.parquet"
    write(file, [{"n": n} for n in range(9)])
    position = read(parquet(file))[6][1]
    write(file, [{"n": 1}])
    with pytest.raises(RuntimeFailure, match="is shorter than what has been read of it"):
        read(parquet(file), position)


@pytest.mark.parametrize("follow", [False, True])
def test_a_row_over_the_limit_is_read_in_pieces_and_told(tmp_path: Path, *, follow: bool) -> None:
    size = 64 << 20
    file = tmp_path / "rows.csv"
    with file.open("wb") as stream:
        stream.write(b"a,b\n1,2\n" + b'3,"open\n')
        for _ in range(64):
            stream.write(b"x" * (size // 64))
        stream.write(b"\n5,6\n" + b"y" * 2000 + (b"\n" if follow else b""))
    source = rows_of_csv(file, follow=follow)
    tracemalloc.start()
    rows = [item for item in itertools.takewhile(bool, source.read(None)) if item is not None]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < size // 16
    assert [DECODE(rows[number][0]) for number in (0, 3)] == [
        {"a": "1", "b": "2"},
        {"a": "5", "b": "6"},
    ]
    told = "a row of {} bytes; the limit is 1000: raise --max-frame; it begins with b'{}"
    for number, bytes_, letter in ((2, size + 1, "x"), (4, 2000 + follow, "y")):
        with pytest.raises(ValueError, match=f"{file}, before byte [0-9]+: ") as told_of:
            DECODE(rows[number][0])
        assert told.format(bytes_, letter) in str(told_of.value)
    for number, (_, position) in enumerate(rows):
        assert list(itertools.takewhile(bool, source.read(position))) == rows[number + 1 :]
