"""Works around paths that parts of Spark misinterpret.

When reading state and repartitioning, Spark URL-encodes the path of a checkpoint and then uses the
result as a path, which fails if it contains spaces or non-ASCII letters.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from wallaroo.system.object_store import is_stored

_PLAIN = re.compile(r"[A-Za-z0-9/._~+=@,-]*")


@contextlib.contextmanager
def plain_path(checkpoint: Path) -> Iterator[Path]:
    """Yield a path to *checkpoint* without special characters: itself, or a symbolic link."""
    if is_stored(checkpoint) or _PLAIN.fullmatch(str(checkpoint)):
        yield checkpoint
        return
    with tempfile.TemporaryDirectory(prefix="wallaroo-") as directory:
        link = Path(directory, "checkpoint")
        link.symlink_to(checkpoint)
        yield link
