"""Adapts a checkpoint that has been moved or copied to another directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wallaroo.errors import damaged
from wallaroo.system.atomic_write import write_durably
from wallaroo.system.object_store import is_stored

_PATHS = "stateSchemaFilePaths"


def relocate(checkpoint: Path, place: Path | None = None) -> bool:
    """Adapt *checkpoint* to the directory it is in; returns whether it was in another one before.

    The only absolute paths in a checkpoint are those of the schemas of its state, in the metadata
    of each stateful operator (`OperatorStateMetadataV2`). Without this, a copy would read the
    schemas of the original, as long as that exists.

    Args:
        checkpoint: Absolute path of its directory, which need not exist. No query may be running.
        place: Absolute path of the directory that it is going to be in; None for *checkpoint*.

    Raises:
        DamagedFile: Such metadata cannot be read; the message names the file.
    """
    moved = False
    for file in checkpoint.glob("state/*/_metadata/v2/*"):
        operator = (place or checkpoint) / "state" / file.parents[2].name
        if file.name.isdecimal() and (text := _relocated(file, operator)) is not None:
            write_durably(file, text)
            moved = True
    return moved


def _relocated(file: Path, operator: Path) -> str | None:
    """Metadata of *file* adapted to the directory of its *operator*; None if it is already."""
    try:
        return _adapted(file.read_text(), operator)
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise damaged(file, error) from error


def _adapted(text: str, operator: Path) -> str | None:
    version, _, body = text.partition("\n")
    metadata: dict[str, Any] = json.loads(body)
    schemas = operator / "_stateSchema"
    scheme, moved = "" if is_stored(operator) else "file:", False
    for store in metadata["stateStoreInfo"]:
        # file:/…/checkpoint/state/0/_stateSchema/default/0_…, or s3a://…
        places = [
            f"{scheme}{schemas}{place.rpartition('/_stateSchema')[2]}" for place in store[_PATHS]
        ]
        moved = moved or places != store[_PATHS]
        store[_PATHS] = places
    return f"{version}\n{json.dumps(metadata, separators=(',', ':'))}" if moved else None
