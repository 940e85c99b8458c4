"""Reads the position of a query from the files of its checkpoint, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wallaroo.engine.gateway_api import Position
from wallaroo.errors import UsageError


def position_of(checkpoint: Path) -> Position:
    """Return the position of the stopped query of *checkpoint*, which need not exist.

    Raises:
        UsageError: A file of it cannot be read.
    """
    numbers = _numbers(checkpoint / "offsets")
    if not numbers:
        return Position()
    last, committed = numbers[-1], max(_numbers(checkpoint / "commits"), default=-1)
    planned = _offset(checkpoint, last)
    return Position(
        run=(checkpoint / "metadata").read_text(),
        batch=last,
        planned=planned["offset"],
        opening=planned.get("opening"),
        committed=_offset(checkpoint, committed)["offset"] if committed in numbers else 0,
        published=_last_that_took_messages(checkpoint, numbers, committed),
    )


def planned_end(checkpoint: Path, batch: int) -> int:
    """Return the end offset of *batch*, which has been planned."""
    return int(_offset(checkpoint, batch)["offset"])


def _last_that_took_messages(checkpoint: Path, numbers: list[int], committed: int) -> int:
    """Return the last committed batch with messages, which was published; -1 if unknown.

    Imports of state and repartitioning are batches, too, but without messages.
    """
    for number in reversed([number for number in numbers if number <= committed]):
        if number == 0:
            return 0 if _offset(checkpoint, 0)["offset"] else -1
        if number - 1 not in numbers:
            return -1
        if _offset(checkpoint, number - 1)["offset"] != _offset(checkpoint, number)["offset"]:
            return number
    return -1


def _numbers(directory: Path) -> list[int]:
    """Return the numbers of the batches with a file in *directory*, in order."""
    return sorted(int(file.name) for file in directory.glob("*") if file.name.isdecimal())


def _offset(checkpoint: Path, batch: int) -> dict[str, Any]:
    file = checkpoint / "offsets" / str(batch)
    try:
        return dict(json.loads(file.read_text().splitlines()[-1]))
    except (ValueError, TypeError, IndexError) as error:
        msg = f"{file} is corrupt ({error}); restore the state directory from a backup"
        raise UsageError(msg) from error
