"""How far the query of a checkpoint is, read from its files; nothing of Spark is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wallaroo.dataflow.records import JOURNAL
from wallaroo.engine.gateway_api import CheckpointProgress, Offsets
from wallaroo.errors import UsageError


def progress_of(checkpoint: Path) -> CheckpointProgress:
    """How far the query of *checkpoint* is; it must not run. The directory need not exist.

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
    """Name of the query of *checkpoint*: what Spark has stored there about it."""
    return (checkpoint / "metadata").read_text()


def planned_end(checkpoint: Path, batch: int) -> Offsets:
    """Offsets after *batch*, which has been planned."""
    return _offsets(_offset(checkpoint, batch))


def _offsets(planned: dict[str, Any]) -> Offsets:
    return {JOURNAL: int(planned["offset"])}


def _last_that_took_messages(checkpoint: Path, numbers: list[int], committed: int) -> int:
    """The last committed batch that took messages, and so was published; -1 if none is known.

    An import of state and another number of partitions are batches, too, but without messages.
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
    """Numbers of the batches that have a file in *directory*, from the first to the last."""
    return sorted(int(file.name) for file in directory.glob("*") if file.name.isdecimal())


def _offset(checkpoint: Path, batch: int) -> dict[str, Any]:
    file = checkpoint / "offsets" / str(batch)
    try:
        return dict(json.loads(file.read_text().splitlines()[-1]))
    except (ValueError, TypeError, IndexError) as error:
        msg = f"{file} is damaged ({error}): restore the state directory from a copy"
        raise UsageError(msg) from error
