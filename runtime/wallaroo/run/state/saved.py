"""State entities as plain JSON values, for display and export."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wallaroo.engine.base import SavedState
from wallaroo.errors import RuntimeFailure
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


def entity_json(state: str, key: Any, entity: Any, time: KeyTime | None = None) -> dict[str, Any]:
    """An entity as plain JSON values: `state`, `key`, `entity` and, if its state has it, `time`."""
    plain = {"state": state, "key": to_plain(key), "entity": to_plain(entity)}
    return plain if time is None else {**plain, "time": time.to_json()}
