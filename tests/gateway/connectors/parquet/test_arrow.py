"""Rows become tables, without those that do not fit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from wallaroo.gateway.connectors.parquet.arrow import table_of

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
