"""State entities as plain JSON values, for display and export."""

from __future__ import annotations

from typing import Any

from wallaroo.dataflow.json_codec import to_plain
from wallaroo.model.migrations import FIRST
from wallaroo.model.timing import KeyTime


def entity_json(
    state: str, key: Any, entity: Any, time: KeyTime | None = None, version: int = FIRST
) -> dict[str, Any]:
    """An entity as plain JSON values: `state`, `key`, `entity`, and the result of `about`."""
    plain = {"state": state, "key": to_plain(key), "entity": to_plain(entity)}
    return plain | about(time, version)


def about(time: KeyTime | None, version: int) -> dict[str, Any]:
    """The time of a key, if its state keeps it, and the version of a class unless it is 1."""
    known: dict[str, Any] = {} if time is None else {"time": time.to_json()}
    return known if version == FIRST else {**known, "version": version}
