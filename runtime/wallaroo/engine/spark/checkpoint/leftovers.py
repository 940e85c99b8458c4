"""Removes what a Spark that was killed has left unfinished in a checkpoint."""

from __future__ import annotations

from pathlib import Path

_LOGS = ("offsets", "commits")


def remove_leftovers(checkpoint: Path) -> None:
    """Remove files of the logs of *checkpoint* that were being written when Spark was killed.

    Spark refuses to run the first epoch if the log of commits has any file, even such a one. No
    query may be running, and one that still is cannot commit any more.

    Args:
        checkpoint: Its directory, which need not exist.
    """
    for log in _LOGS:
        for file in (checkpoint / log).glob(".*.tmp"):
            file.unlink(missing_ok=True)
