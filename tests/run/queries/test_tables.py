"""States as tables: columns, their names and types, and what is no row."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from tests.run.queries.entities import Entity, rows, tables_of, types
from wallaroo.errors import UsageError
from wallaroo.run.queries import tables as module


class Colour(enum.Enum):
    RED = 1


@dataclass
class Annotated:
    limit: ClassVar[int] = 3
    total: float
    key: str = "own"
    Total: int | None = None
    tags: set[str] = field(default_factory=set)
    by_user: dict[str, list[int]] = field(default_factory=dict)
    colour: Colour | None = None


class WithDefault:
    added = 7

    def __init__(self) -> None:
        self.x = 1


class User(NamedTuple):
    name: str
    country: str


def test_annotations_tell_the_types_also_without_entities() -> None:
    expected = {
        "key": "JSON",
        "total": "DOUBLE",
        "key_": "VARCHAR",
        "Total_": "BIGINT",
        "tags": "VARCHAR[]",
        "by_user": "MAP(VARCHAR, BIGINT[])",
        "colour": "VARCHAR",
    }
    with tables_of(empty=lambda: Annotated(0)) as tables:
        assert types(tables, "empty") == expected
        assert rows(tables, "FROM empty") == []
    entity: Any = Annotated(3, Total=2)
    with tables_of(("state", "a", entity), state=lambda: Annotated(0)) as tables:
        assert types(tables, "state") == expected | {"key": "VARCHAR"}
        (row,) = rows(tables, "FROM state")
    assert (row["total"], row["Total_"], row["key_"], row["key"]) == (3.0, 2, "own", "a")


def test_values_that_do_not_fit_an_annotation_have_their_own_type() -> None:
    with tables_of(("state", 1, Annotated("much")), state=lambda: Annotated(0)) as tables:  # type: ignore[arg-type]
        assert types(tables, "state")["total"] == "VARCHAR"


def test_an_attribute_that_an_entity_lacks_is_that_of_its_class() -> None:
    later = WithDefault()
    later.added = 8
    with tables_of(("state", 1, WithDefault()), ("state", 2, later)) as tables:
        assert rows(tables, "SELECT added FROM state ORDER BY key") == [{"added": 7}, {"added": 8}]


def test_parts_of_keys_are_columns() -> None:
    entities = [
        ("pairs", ("ada", 1), Entity(n=1)),
        ("pairs", ("bob", 2), Entity(n=2)),
        ("users", User("ada", "gb"), Entity(key_name=3)),
        ("odd", ("ada",), Entity()),
        ("odd", ("ada", 1), Entity()),
    ]
    with tables_of(*entities) as tables:
        assert rows(tables, "SELECT key_0, n FROM pairs WHERE key_1 = 2") == [
            {"key_0": "bob", "n": 2}
        ]
        assert rows(tables, "FROM users") == [
            {"key_name": "ada", "key_country": "gb", "key_name_": 3}
        ]
        assert types(tables, "odd") == {"key": "JSON[]"}


def test_entities_without_attributes_have_a_value() -> None:
    entities: list[Any] = [("counts", 1, {"a": 1}), ("counts", 2, {}), ("mixed", 1, 5)]
    with tables_of(*entities, ("mixed", 2, Entity(n=1))) as tables:
        assert types(tables, "counts") == {"key": "BIGINT", "value": "MAP(VARCHAR, BIGINT)"}
        assert rows(tables, "FROM mixed ORDER BY key") == [
            {"key": 1, "value": 5, "n": None},
            {"key": 2, "value": None, "n": 1},
        ]


def test_odd_names() -> None:
    entity = Entity(select=1, **{"two words": 2, 'quo"te': 3, "nul\0": 4, "": 5})
    with tables_of(("from", 1, entity), ('a "b" c', 2, entity), ("From", 3, entity)) as tables:
        (row,) = rows(tables, 'SELECT "select", "two words", "quo""te" FROM "a ""b"" c"')
        assert row == {"select": 1, "two words": 2, 'quo"te': 3}
        assert rows(tables, 'SELECT key FROM "From_"') == [{"key": 3}]
        assert list(types(tables, '"from"')) == [
            *("key", "select", "two words", 'quo"te', "nul\\0", "_")
        ]


def test_types_are_those_of_all_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH", 2)
    values = [1, 2, None, 3, 2.5, 10, 11]
    entities = [("state", key, Entity(n=value, odd=key)) for key, value in enumerate(values)]
    entities.append(("state", 7, Entity(odd="text", unpicklable=lambda: None)))
    with tables_of(*entities) as tables:
        assert types(tables, "state") == {
            "key": "BIGINT",
            "n": "DOUBLE",
            "odd": "JSON",
            "unpicklable": "JSON",
        }
        found = rows(tables, "FROM state ORDER BY key")
    assert [row["n"] for row in found] == [*values, None]
    assert [row["odd"] for row in found] == [*range(7), "text"]
    assert "<lambda>" in str(found[-1]["unpicklable"])


def test_times() -> None:
    at = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    entity = Entity(since=at, took=dt.timedelta(minutes=1.5))
    with tables_of(("state", 1, entity)) as tables:
        (row,) = rows(tables, "SELECT since, took, epoch(took) AS seconds FROM state")
    assert row == {"since": "2026-03-01 10:00:00+00", "took": "00:01:30", "seconds": 90.0}


def test_only_the_tables_that_a_query_may_name_are_made() -> None:
    entities = [("one", 1, Entity(n=1)), ("two", 1, Entity(n=2))]
    with tables_of(*entities, query="SELECT n FROM ONE") as tables:
        assert list(tables.columns) == ["one"]
        assert rows(tables, "SELECT n FROM ONE") == [{"n": 1}]
    with tables_of(*entities, query="SHOW TABLES") as tables:
        assert rows(tables, "SHOW TABLES") == [{"name": "one"}, {"name": "two"}]
        with pytest.raises(UsageError, match='no table "three"; the tables are "one", "two"'):
            rows(tables, "SELECT n FROM three")


def test_values_of_numpy_and_pandas() -> None:
    entity = Entity(
        number=np.float32(0.5),
        count=np.int64(3),
        flag=np.bool_(True),
        array=np.array([1, 2]),
        day=np.datetime64("2026-03-01"),
        at=pd.Timestamp("2026-03-01"),
        longest=np.longdouble(1),
    )
    with tables_of(("state", np.str_("a"), entity)) as tables:
        assert list(types(tables, "state").values()) == [
            *("VARCHAR", "DOUBLE", "BIGINT", "BOOLEAN", "JSON", "JSON", "JSON", "JSON")
        ]
        query = 'SELECT key, "number", "count", flag FROM state'
        assert rows(tables, query) == [{"key": "a", "number": 0.5, "count": 3, "flag": True}]
