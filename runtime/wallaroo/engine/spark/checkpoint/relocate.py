"""A checkpoint that has been moved, or copied, to another directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wallaroo.system.atomic_write import write_durably

_PATHS = "stateSchemaFilePaths"


def settle(checkpoint: Path) -> bool:
    """Let a query go on with *checkpoint* where it is now; tells whether it was elsewhere before.

    All that Spark keeps of where a checkpoint is are the places of the schemas of its state, in the
    metadata of each stateful operator (`OperatorStateMetadataV2`). They are absolute, so that a
    copy would read those of its original, as long as that is there.

    Args:
        checkpoint: Its directory, absolute; need not be there. No query may run in it.
    """
    moved = False
    for file in checkpoint.glob("state/*/_metadata/v2/*"):
        if file.name.isdecimal() and (text := _settled(file)) is not None:
            write_durably(file, text)
            moved = True
    return moved


def _settled(file: Path) -> str | None:
    """What the metadata in *file* should be; None where it is that already."""
    version, _, body = file.read_text().partition("\n")
    metadata: dict[str, Any] = json.loads(body)
    schemas = file.parents[2] / "_stateSchema"
    moved = False
    for store in metadata["stateStoreInfo"]:
        # file:/…/checkpoint/state/0/_stateSchema/default/0_…
        places = [
            f"file:{schemas}{place.rpartition('/_stateSchema')[2]}" for place in store[_PATHS]
        ]
        moved = moved or places != store[_PATHS]
        store[_PATHS] = places
    return f"{version}\n{json.dumps(metadata, separators=(',', ':'))}" if moved else None
