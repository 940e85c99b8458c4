"""Removes what a Spark that failed or was killed has left unfinished in a checkpoint."""

from __future__ import annotations

from pathlib import Path

_LOGS = ("offsets", "commits")
_STATE = ("*/*/*.zip", "*/*/*.changelog")
"""Files of the state whose names are the numbers of versions: of all that a partition has, or of
what changed."""


def remove_leftovers(checkpoint: Path) -> None:
    """Remove files of the logs of *checkpoint* that were being written when Spark was killed.

    Spark refuses to run the first batch if the log of commits has any file, even such a one. No
    query may be running, and one that still is cannot commit any more.

    Args:
        checkpoint: Its directory, which need not exist.
    """
    for log in _LOGS:
        for file in (checkpoint / log).glob(".*.tmp"):
            file.unlink(missing_ok=True)


def remove_uncommitted_state(checkpoint: Path) -> None:
    """Remove the state that the batch has written in *checkpoint* which Spark has not committed.

    The batch runs again, and may then lead to other state. It replaces the files of what changed,
    but not one of all that a partition has, which Spark writes now and then in the background, and
    later reads as the basis of what changed since. No task of the batch may be running.

    Args:
        checkpoint: Its directory, which need not exist.
    """
    batches = [int(file.name) for file in (checkpoint / "commits").glob("[0-9]*")]
    committed = max(batches, default=-1) + 1  # a batch reads the version of its own number
    for pattern in _STATE:
        for file in (checkpoint / "state").glob(pattern):
            if file.stem.isdecimal() and int(file.stem) > committed:
                file.unlink(missing_ok=True)
