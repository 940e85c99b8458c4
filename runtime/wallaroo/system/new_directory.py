"""Directories that a command creates, and never mixes with what is there already."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from wallaroo.errors import RuntimeFailure, UsageError, reason_of


@contextlib.contextmanager
def new_directory(directory: Path) -> Iterator[None]:
    """Create *directory*, and let the block fill it.

    Raises:
        UsageError: There is something in it.
        RuntimeFailure: It, or a file in it, cannot be created.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            msg = f"{directory} exists and is not empty; choose another --directory"
            raise UsageError(msg)
        yield
    except OSError as error:
        msg = f"cannot create {directory}: {reason_of(error)}"
        raise RuntimeFailure(msg) from error
