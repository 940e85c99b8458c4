"""State entities as plain JSON values, for display and export."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wallaroo.engine.stored import SavedState
from wallaroo.errors import RuntimeFailure
from wallaroo.model.migrations import FIRST
from wallaroo.model.timing import KeyTime
from wallaroo.run.state.json_codec import to_plain


def of_key(saved: SavedState, text: str) -> Iterator[dict[str, Any]]:
    """The entities of all states whose key is written as *text*, each as from `entity_json`.

    Raises:
        RuntimeFailure: They cannot be read, or one of them cannot be loaded.
    """
    for name, key, entity in saved.entities():
        if text in {str(key), repr(key)}:
            yield entity_json(name, key, entity, saved.time_of(name, key))
    for one in saved.unloaded:
        if text in {str(one.key), repr(one.key)}:
            raise RuntimeFailure(str(one))


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
