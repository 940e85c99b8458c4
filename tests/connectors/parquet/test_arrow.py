"""Rows become tables, without those that do not fit."""

from __future__ import annotations

from datetime import datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wallaroo.connectors.parquet.arrow import table_of

SCHEMA = pa.schema([pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.string())])


def made(
    *rows: dict[str, Any], schema: pa.Schema | None = None
) -> tuple[list[Any], dict[int, str]]:
    table, refused = table_of(dict(enumerate(rows)), schema)
    if table is not None and schema is not None:
        assert table.schema == schema
    return [] if table is None else table.to_pylist(), refused


def test_columns_are_those_of_all_rows_and_numbers_are_widened() -> None:
    rows, refused = made({"a": None}, {"a": 1, "b": "x"}, {"a": 2.5}, {"c": [1]})
    assert not refused
    assert rows == [
        {"a": None, "b": None, "c": None},
        {"a": 1.0, "b": "x", "c": None},
        {"a": 2.5, "b": None, "c": None},
        {"a": None, "b": None, "c": [1]},
    ]


def test_without_a_schema_the_first_value_says_what_others_must_be() -> None:
    rows, refused = made({"a": 1}, {"a": "x", "b": 1}, {"a": 2}, {})
    assert rows == [{"a": 1, "b": None}, {"a": 2, "b": None}]
    assert refused[1].startswith("column 'a' is of type int64: ")
    assert refused[3] == "the row has no columns"


def test_a_column_of_a_type_that_parquet_has_not_is_left_empty() -> None:
    rows, refused = made({"a": 1, "b": {}}, {"a": 2}, {"a": 3, "b": []})
    assert rows == [{"a": 2, "b": None}]
    assert refused[0].startswith("column 'b' is of type struct<>: ")
    rows, refused = made({"a": 1, "b": {}}, {"a": 2, "b": {"c": 1}})
    assert not refused


NOON = datetime(2026, 1, 1, 12, 0, 0, 123456)
EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("values", "kept", "told"),
    [
        ([1, 2.5, "x", 3.75], [1.0, 2.5, 3.75], "double: "),
        ([[1], [1.5], "x"], [[1.0], [1.5]], "list<item: double>: "),
        ([{"p": 1}, {"p": 2.5}, 7], [{"p": 1.0}, {"p": 2.5}], "struct<p: double>: "),
        ([2**53 + 1, 0.5], [2**53 + 1], "int64"),
        ([1, 0.1, True], [1.0, 0.1], "double, which would change True to 1.0"),
        ([Decimal("1.5"), Decimal("1.005"), "x"], [Decimal("1.500"), Decimal("1.005")], "decimal"),
        ([NOON.date(), NOON], [NOON.date()], "date32[day], which would change datetime.datetime("),
        ([NOON.date(), 7], [NOON.date()], "date32[day], which would change 7 to datetime.date("),
        ([NOON.date(), -(2**31)], [NOON.date()], "date32[day], which is not -2147483648"),
        ([NOON, NOON.replace(tzinfo=EAST)], [NOON], "timestamp[us], which would change"),
        ([NOON.time(), NOON.timetz().replace(tzinfo=EAST)], [NOON.time()], "time64[us], which"),
    ],
)
def test_what_does_not_fit_changes_no_other_value_and_is_not_changed_itself(
    values: list[Any], kept: list[Any], told: str
) -> None:
    rows, refused = made(*({"v": value} for value in values))
    assert [(type(row["v"]), row["v"]) for row in rows] == [(type(one), one) for one in kept]
    (problem,) = refused.values()
    assert problem.startswith(f"column 'v' is of type {told}")


@pytest.mark.parametrize(
    ("kind", "value", "is_kept"),
    [
        (pa.int64(), 1.5, False),
        (pa.int64(), 2.0, True),
        (pa.list_(pa.int32()), [1, 2.5], False),
        (pa.float32(), 0.1, True),
        (pa.float32(), 1e300, False),
        (pa.float64(), float("nan"), True),
        (pa.date32(), NOON, False),
        (pa.date32(), datetime(2026, 1, 1), True),
        (pa.timestamp("ns"), 1_700_000_000_000_000_001, True),
        (pa.date32(), 7, True),
        (pa.timestamp("s"), NOON, True),
        (pa.timestamp("us", "UTC"), NOON.replace(tzinfo=EAST), True),
        (pa.timestamp("us"), NOON.replace(tzinfo=EAST), False),
        (pa.time32("s"), NOON.time(), True),
        (pa.duration("ms"), timedelta(microseconds=1001), True),
        (pa.struct({"a": pa.int64()}), {"a": 1, "b": 2}, False),
        (pa.struct({"a": pa.int64(), "b": pa.int64()}), {"a": 1}, True),
        (pa.map_(pa.string(), pa.int64()), {"a": 1}, True),
        (pa.map_(pa.string(), pa.int64()), [("a", 1.5)], False),
        (pa.map_(pa.string(), pa.list_(pa.float32())), {"a": (0.1, 2)}, True),
        (pa.dictionary(pa.int32(), pa.string()), "a", True),
        (pa.binary(), bytearray(b"a"), True),
        (pa.decimal128(5, 2), Decimal("1.5"), True),
    ],
)
def test_a_value_is_rounded_to_the_resolution_of_its_type_and_no_further(
    kind: pa.DataType, value: Any, is_kept: bool
) -> None:
    schema = pa.schema([("v", kind)])
    for rows in ([value], [value, None, value]):
        refused = made(*({"v": one} for one in rows), schema=schema)[1]
        assert [*refused] == ([] if is_kept else [n for n, one in enumerate(rows) if one])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.none()
        | st.booleans()
        | st.integers(-(2**60), 2**60)
        | st.floats()
        | st.text(max_size=2)
        | st.dates()
        | st.datetimes()
        | st.lists(st.integers(0, 3) | st.floats(0, 1), max_size=2)
        | st.dictionaries(st.sampled_from("ab"), st.integers(0, 3) | st.floats(0, 1), max_size=2),
        max_size=6,
    )
)
def test_without_a_schema_each_value_is_kept_as_it_is_or_refused(values: list[Any]) -> None:
    rows, refused = made(*({"v": value} for value in values))
    left = [value for number, value in enumerate(values) if number not in refused]
    for value, row in zip(left, rows, strict=True):
        kept = row["v"]
        if isinstance(value, dict):
            kept = {name: one for name, one in kept.items() if name in value}
        elif isinstance(kept, datetime) and not isinstance(value, datetime):
            value = datetime.combine(value, time())  # noqa: PLW2901
        assert kept == value or kept != kept  # noqa: PLR0124 - not a number
        assert isinstance(kept, bool) == isinstance(value, bool)
    assert not values or 0 not in refused or values[0] == {}  # which Parquet has not


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"a": 1, "c": 1}, "the schema has no column 'c'"),
        ({"b": "x"}, "column 'a' has no value"),
        ({"a": 1000}, "column 'a' is of type int8: "),
        ({"a": 1, "b": 7}, "column 'b' is of type string: "),
    ],
)
def test_what_does_not_fit_a_schema_is_told(row: dict[str, Any], reason: str) -> None:
    rows, refused = made({"a": 1, "b": "x"}, row, {"a": 2}, schema=SCHEMA)
    assert rows == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert [*refused] == [1]
    assert refused[1].startswith(reason)
    assert "\n" not in refused[1]
    assert made(row, schema=SCHEMA)[0] == []
