"""Rows come back as they were, whatever values they have."""

from __future__ import annotations

import enum
import math
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.wire.rows import packed_row, unpacked_row

NAMES = st.text(max_size=5) | st.sampled_from(["$date", "$object", "$"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.dates()
    | st.datetimes()
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
)
VALUES = st.recursive(
    SCALARS, lambda one: st.lists(one) | st.dictionaries(NAMES, one), max_leaves=9
)


@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_any_row_comes_back(row: dict[str, Any]) -> None:
    assert unpacked_row(packed_row(row)) == row


def test_times_keep_their_zones() -> None:
    at = datetime.fromisoformat("2026-07-01T12:00:00.000001+02:00")
    found = unpacked_row(packed_row({"at": at}))["at"]
    assert (found, found.utcoffset()) == (at, timedelta(hours=2))


def test_values_of_numpy_and_pandas_become_those_of_python() -> None:
    class Colour(enum.IntEnum):
        RED = 1

    row = {
        "n": np.int64(7),
        "x": np.float32(0.5),
        "a": np.array([1, 2]),
        "at": pd.Timestamp("2026-07-01 12:00:00.123456789"),
        "c": Colour.RED,
        "t": (1, 2),
    }
    assert unpacked_row(packed_row(row)) == {
        "n": 7,
        "x": 0.5,
        "a": [1, 2],
        "c": 1,
        "t": [1, 2],
        "at": datetime(2026, 7, 1, 12, 0, 0, 123456),
    }
    assert math.isnan(unpacked_row(packed_row({"n": math.nan}))["n"])


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ([1], "a row is a list; expected a dict from names of columns to values"),
        ({1: 2}, "a column has the name 1; expected a text"),
        ({"a": [{"b": {1}}]}, "column 'a' is of class set, which a row cannot hold"),
        ({"a": {date.min: 1}}, r"column 'a' has a mapping with the name datetime.date\(1, 1, 1\)"),
    ],
)
def test_what_is_no_row_is_told_with_its_column(row: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        packed_row(row)


@pytest.mark.parametrize(
    "data", [b"[1]", b"7", b"{", b'{"a":{"$later":1}}', b'{"a":{"$date":"x"}}']
)
def test_what_was_not_packed_is_no_row(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpacked_row(data)
