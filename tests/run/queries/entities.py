"""Entities that are in no state directory, and what SQL tells of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from wallaroo.api.places import Place
from wallaroo.engine.stored import SavedState
from wallaroo.model.application import Application, StatePartition
from wallaroo.run.queries.database import StateTables


class Entity:
    """An object of a plain class."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class _Saved:
    def __init__(self, entities: Sequence[tuple[str, Any, Any]]) -> None:
        self._entities = entities
        self.unloaded: list[Any] = []

    def entities(self) -> Iterator[tuple[str, Any, Any]]:
        yield from self._entities

    def time_of(self, _state: str, _key: Any) -> None:
        return


@contextmanager
def tables_of(
    *entities: tuple[str, Any, Any], query: str | None = None, **classes: Any
) -> Iterator[StateTables]:
    """The tables of *entities*, each a state, a key and an entity, and of *classes* by state."""
    states = {name: Entity for name, _, _ in entities} | classes
    partitions = {name: StatePartition(name, kind, None, PLACE) for name, kind in states.items()}
    with StateTables(Application("application", (), partitions)) as tables:
        tables.fill(cast("SavedState", _Saved(entities)), query)
        yield tables


def rows(tables: StateTables, query: str) -> list[Any]:
    """The rows of *query* as JSON values."""
    with tables.result(query) as result:
        return list(map(json.loads, result.documents()))


def types(tables: StateTables, table: str) -> Mapping[str, str]:
    """The types of the columns of *table*."""
    found = rows(tables, f"DESCRIBE {table}")
    return {row["column_name"]: row["column_type"] for row in found}


PLACE = Place("application.py", 1)
