"""Columns: what SQL returns equals the attribute, whatever values a column has."""

from __future__ import annotations

import datetime as dt
import enum
import json
import sys
import uuid
from collections import Counter, deque
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.run.queries.entities import Entity, tables_of
from wallaroo.dataflow.json_codec import from_plain
from wallaroo.run.queries.columns import column, json_text, settled, sql_type
from wallaroo.run.queries.kinds import JSON, Items, Kind, Map, Places, Record, kind_of, united
from wallaroo.run.queries.objects import attributes_of


class Colour(enum.Enum):
    RED = 1
    GREEN = "green"


class Point(NamedTuple):
    x: Any
    y: Any


class Slotted:
    __slots__ = ("__hidden", "shown")

    def __init__(self, shown: Any, hidden: Any) -> None:
        self.shown, self.__hidden = shown, hidden

    def __eq__(self, other: object) -> bool:
        return attributes_of(self) == attributes_of(other)

    __hash__ = None  # type: ignore[assignment]


ZONES = st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=-7, minutes=-30))])
DAYS = st.dates()
SCALARS = (
    st.booleans()
    | st.integers()
    | st.integers(-5, 5)
    | st.floats()
    | st.text(st.characters())
    | st.sampled_from(["", "\ud800", "a\0b", "NULL", "é"])
    | st.binary(max_size=5)
    | DAYS
    | st.datetimes()
    | st.datetimes(timezones=ZONES)
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.decimals(places=2, min_value=-99, max_value=99)
    | st.sampled_from(Colour)
    | st.uuids()
)
VALUES = st.recursive(
    st.none() | SCALARS,
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.lists(parts, max_size=3).map(tuple)
        | st.lists(parts, max_size=3).map(deque)
        | st.dictionaries(st.text("ab", max_size=2) | st.integers(0, 3), parts, max_size=3)
        | st.dictionaries(st.text("ab", max_size=2), st.integers(), max_size=3).map(Counter)
        | st.builds(Point, parts, parts)
        | st.builds(Slotted, parts, parts)
        | st.frozensets(st.integers(0, 9), max_size=3)
    ),
    max_leaves=6,
)
ALIKE = st.sampled_from([st.booleans(), st.integers(), st.floats(), st.uuids(), DAYS, VALUES])
COLUMNS = st.lists(VALUES, min_size=1, max_size=6) | ALIKE.flatmap(
    lambda of: (
        st.lists(st.none() | st.lists(of, max_size=3), min_size=1, max_size=6)
        | st.lists(st.none() | of, min_size=1, max_size=6)
    )
)


def check(kind: Kind, value: Any, found: Any) -> None:  # noqa: PLR0912  (one for each kind)
    """Check that *found*, in a column of *kind*, is *value*."""
    if value is None:
        assert found is None
    elif kind == JSON:
        assert found == json_text(value)
        if "$text" not in found:
            again = from_plain(json.loads(found))
            assert again == value or json_text(again) == found  # NaN differs from itself
    elif isinstance(kind, Items):
        items = sorted(value) if isinstance(value, frozenset) else list(value)
        assert len(items) == len(found)
        for one, other in zip(items, found, strict=True):
            check(kind.item, one, other)
    elif isinstance(kind, Map):
        assert len(value) == len(found)
        for (key, item), (found_key, found_item) in zip(value.items(), found, strict=True):
            check(kind.key, key, found_key)
            check(kind.value, item, found_item)
    elif isinstance(kind, Places):
        for of, item, part in zip(kind.places, value, found.values(), strict=True):
            check(of, item, part)
    elif isinstance(kind, Record):
        parts = attributes_of(value)
        for (name, of), part in zip(kind.fields.items(), found.values(), strict=True):
            check(of, parts.get(name), part)
    elif isinstance(value, enum.Enum):
        assert found == value.name
    elif isinstance(value, uuid.UUID):
        assert found == str(value)
    elif isinstance(value, float) and value != value:  # noqa: PLR0124
        assert found != found  # noqa: PLR0124
    elif isinstance(found, pa.MonthDayNano):
        assert (found.months, found.days) == (0, 0)
        assert found.nanoseconds == value // dt.timedelta(microseconds=1) * 1000
    else:
        assert found == value
        assert isinstance(found, bool) == isinstance(value, bool)


@given(COLUMNS)
@example([2**63, -(2**63), None])
@example([10**38 - 1, Decimal("0.5")])
@example([Decimal("1E+30"), Decimal("-0.001"), 7])
@example([2**53 + 1, 0.5])
@example([dt.datetime.max, dt.datetime.min.replace(fold=1)])
@example([dt.timedelta.max])
@example([{}, {"a": None}])
@example([(1, "a"), (2, "b")])
@example([(1, "a"), (2, "b", "c"), []])
def test_a_column_has_the_values(values: list[Any]) -> None:
    kind = settled(kind_of(values))
    found = column(kind, values).to_pylist()
    for value, one in zip(values, found, strict=True):
        check(kind, value, one)


@given(COLUMNS, COLUMNS)
def test_a_kind_does_not_depend_on_how_values_are_divided(one: list[Any], other: list[Any]) -> None:
    together = kind_of([*one, *other])
    assert united([kind_of(one), kind_of(other)]) == together
    assert united([kind_of(other), kind_of(one)]) == together


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(COLUMNS)
def test_sql_returns_the_values(values: list[Any]) -> None:
    entities = [("state", number, Entity(v=value)) for number, value in enumerate(values)]
    with tables_of(*entities) as tables, tables.result("SELECT v FROM state ORDER BY key") as told:
        (_, column_of_v) = tables.columns["state"]
        _, batches = told.batches()
        found = _rows(list(batches))
        for value, one in zip(values, found, strict=True):
            if not _is_beyond_arrow(value):
                check(column_of_v.kind, value, one)


def _rows(batches: Sequence[pa.RecordBatch]) -> list[Any]:
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def _is_beyond_arrow(value: Any) -> bool:
    """Whether nanoseconds, as which Arrow passes an INTERVAL, take more than 64 bits."""
    parts = value if isinstance(value, list | tuple | deque) else [value]
    limit = dt.timedelta(microseconds=2**63 // 1000)
    return any(isinstance(part, dt.timedelta) and abs(part) >= limit for part in parts)


def test_an_object_within_one_of_its_class_is_json() -> None:
    inner = Entity(name="inner", next=None)
    values = [Entity(name="outer", next=inner), inner]
    kind = settled(kind_of(values))
    assert sql_type(kind) == 'STRUCT("name" VARCHAR, "next" JSON)'
    for value, found in zip(values, column(kind, values).to_pylist(), strict=True):
        assert found["name"] == value.name  # type: ignore[attr-defined]


def test_what_contains_itself_is_told() -> None:
    looped: list[Any] = [1]
    looped.append(looped)
    (found,) = column(settled(kind_of([looped])), [looped]).to_pylist()
    assert "a list that contains itself" in str(found)
    deep: list[Any] = []
    for _ in range(sys.getrecursionlimit()):
        deep = [deep]
    (found,) = column(settled(kind_of([deep])), [deep]).to_pylist()
    assert "nested too deep" in str(found)
