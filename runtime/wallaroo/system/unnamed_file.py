"""Files without a name, which the system frees when their process ends, however it ends."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path


class UnnamedFile:
    """An empty file that only this process and its forks have.

    Args:
        directory: Where it is.

    Example:
        >>> file = UnnamedFile(Path(tempfile.gettempdir()))
        >>> file.append([b"some", b"thing"]), file.append([b"else"])
        (0, 9)
        >>> file.read(4, 5), file.end
        (b'thing', 13)
    """

    def __init__(self, directory: Path) -> None:
        with tempfile.TemporaryFile(dir=directory) as file:
            self.descriptor = os.dup(file.fileno())
        self.close = weakref.finalize(self, os.close, self.descriptor)
        """Closes it, which frees it."""
        self.end = 0
        """Its size."""

    def append(self, parts: Iterable[bytes]) -> int:
        """Write *parts* to its end; returns where they begin."""
        data, begin = memoryview(b"".join(parts)), self.end
        end = begin + len(data)
        while data:
            data = data[os.pwrite(self.descriptor, data, end - len(data)) :]
        self.end = end
        return begin

    def read(self, at: int, size: int) -> bytes:
        """Up to *size* bytes, from *at* on."""
        data = os.pread(self.descriptor, size, at)
        while len(data) < min(size, self.end - at):  # a call reads 2 GiB at most
            if not (more := os.pread(self.descriptor, size - len(data), at + len(data))):
                break
            data += more
        return data
