"""Reads the position of a query from the files of its checkpoint, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wallaroo.errors import UsageError
from wallaroo.wire.checkpoint_progress import CheckpointProgress, Offsets
from wallaroo.wire.records import JOURNAL


def progress_of(checkpoint: Path) -> CheckpointProgress:
    """Return the progress of the stopped query of *checkpoint*, which need not exist.

    Raises:
        UsageError: A file of it cannot be read.
    """
    numbers = _numbers(checkpoint / "offsets")
    if not numbers:
        return CheckpointProgress()
    last, committed = numbers[-1], max(_numbers(checkpoint / "commits"), default=-1)
    planned = _offset(checkpoint, last)
    return CheckpointProgress(
        run=run_of(checkpoint),
        batch=last,
        planned=_offsets(planned),
        opening=planned.get("opening"),
        committed=planned_end(checkpoint, committed) if committed in numbers else {},
        published=_last_that_took_messages(checkpoint, numbers, committed),
    )


def run_of(checkpoint: Path) -> str:
    """Return the name of the query of *checkpoint*, as Spark has stored it there."""
    return (checkpoint / "metadata").read_text()


def planned_end(checkpoint: Path, batch: int) -> Offsets:
    """Return the end offsets of *batch*, which has been planned."""
    return _offsets(_offset(checkpoint, batch))


def _offsets(planned: dict[str, Any]) -> Offsets:
    return {JOURNAL: int(planned["offset"])}


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
