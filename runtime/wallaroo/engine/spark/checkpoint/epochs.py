"""The epochs that a checkpoint has, from its files, without Spark: Spark calls them batches."""

from __future__ import annotations

import json
from pathlib import Path

from wallaroo.engine.stored import Commit, LastEpoch
from wallaroo.errors import damaged

_PARTITIONS = "spark.sql.shuffle.partitions"


def run_of(checkpoint: Path) -> str:
    """Return the name of the query of *checkpoint*, as Spark has stored it there."""
    return (checkpoint / "metadata").read_text()


def numbers_in(log: Path) -> list[int]:
    """Return the numbers of epochs in a log, `offsets` or `commits`, which need not exist."""
    return [int(file.name) for file in log.glob("*") if file.name.isdecimal()]


def has_epoch(checkpoint: Path) -> bool:
    """Return whether an epoch has begun in *checkpoint*, which need not exist."""
    return bool(numbers_in(checkpoint / "offsets"))


def last_epoch(checkpoint: Path) -> LastEpoch:
    """Return the last epoch that has begun in *checkpoint*, of which there is one.

    Raises:
        DamagedFile: Its file cannot be read.
    """
    last = max(numbers_in(checkpoint / "offsets"))
    file = checkpoint / "offsets" / str(last)
    try:
        _version, metadata, *_ = file.read_text().splitlines()
        partitions = int(json.loads(metadata)["conf"][_PARTITIONS])
    except (ValueError, LookupError, TypeError) as error:
        raise damaged(file, f"{type(error).__name__}: {error}") from error
    return LastEpoch(last, (checkpoint / "commits" / str(last)).exists(), partitions)


def last_commit(checkpoint: Path) -> Commit | None:
    """Return the last committed epoch in *checkpoint*; None if there is none."""
    last = max(numbers_in(checkpoint / "commits"), default=None)
    if last is None:
        return None
    return Commit(last, (checkpoint / "commits" / str(last)).stat().st_mtime)


def remove_leftovers(checkpoint: Path) -> None:
    """Remove files of the logs of *checkpoint* that were being written when Spark was killed.

    Spark refuses to run the first epoch if the log of commits has any file, even such a one. No
    query may be running, and one that still is cannot commit any more.

    Args:
        checkpoint: Its directory, which need not exist.
    """
    for log in ("offsets", "commits"):
        for file in (checkpoint / log).glob(".*.tmp"):
            file.unlink(missing_ok=True)
