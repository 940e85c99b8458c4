"""Names of directories that parts of Spark read wrongly.

Reading state and repartitioning quote a checkpoint's path as a URL does, and take the result for a
path again: a space or a letter beyond ASCII leads elsewhere then.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PLAIN = re.compile(r"[A-Za-z0-9/._~+=@,-]*")


@contextlib.contextmanager
def plainly_spelled(checkpoint: Path) -> Iterator[Path]:
    """A path to *checkpoint* that Spark reads as it is written: its own, or a link's."""
    if _PLAIN.fullmatch(str(checkpoint)):
        yield checkpoint
        return
    with tempfile.TemporaryDirectory(prefix="wallaroo-") as directory:
        link = Path(directory, "checkpoint")
        link.symlink_to(checkpoint)
        yield link
