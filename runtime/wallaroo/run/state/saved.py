"""Saved entities of one key, for display."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wallaroo.dataflow.entity_json import entity_json
from wallaroo.engine.stored import SavedState
from wallaroo.errors import RuntimeFailure


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
