"""Files that an application names as secret: those with its tokens, passwords and headers."""

from __future__ import annotations

import os
from pathlib import Path

_NAMED: set[Path] = set()


def secret_file(path: str | os.PathLike[str] | None) -> Path | None:
    """Make *path* absolute, and note it as secret; None if there is none.

    Example:
        >>> secret_file("/etc/shop/token") in named_secret_files()
        True
    """
    if path is None:
        return None
    file = Path(path).absolute()
    _NAMED.add(file)
    return file


def named_secret_files() -> frozenset[Path]:
    """The files that the applications loaded in this process have named."""
    return frozenset(_NAMED)
