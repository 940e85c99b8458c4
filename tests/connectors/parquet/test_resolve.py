"""Settings of sinks of Parquet that are refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import wallaroo
from tests.resolution.declared import begun, only_problem

unchecked: Any = wallaroo
"""The API as an author has it who uses no type checker."""


@wallaroo.encoder
def as_row(line: str) -> dict[str, Any] | None:
    return {"line": line} if line else None


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"schema": {"a": int}},
            "schema is {'a': <class 'int'>}; expected a pyarrow.Schema, or None",
        ),
        (
            {"schema": pa.schema([("a", pa.int8()), ("b", pa.int8()), ("a", pa.int8())])},
            "schema has several columns of the name 'a'",
        ),
        (
            {"schema": pa.schema([("a", pa.month_day_nano_interval())])},
            "schema has a type for 'a' that Parquet has not: Unhandled type for Arrow to Parquet "
            "schema conversion: month_day_nano_interval",
        ),
        (
            {"schema": pa.schema([("a", pa.dictionary(pa.int8(), pa.string()))])},
            "schema has dictionary<values=string, indices=int8, ordered=0> for 'a', which is for "
            "few different values: write pyarrow.dictionary(pyarrow.int32(), …)",
        ),
        ({"on_lost": "wait"}, "on_lost is 'wait'; expected 'stop' or 'skip'"),
        ({"rows": 0}, "rows is 0; expected a whole number of at least 1"),
        ({"seconds": 0}, "seconds is 0; expected a number above 0"),
        (
            {"seconds": wallaroo.seconds(5)},
            "seconds is 5000000000 ns; expected a number of seconds: 5",
        ),
    ],
)
def test_mistakes_in_sinks_of_files_are_told(settings: dict[str, Any], problem: str) -> None:
    config = unchecked.ParquetSinkConfig("out", as_row, **settings)
    assert only_problem(begun().to_sink(config)).endswith(f": pipeline 'lines': {problem}")
