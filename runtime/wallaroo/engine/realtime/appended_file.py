"""Appends to the logs of buckets, in a file: the changes of all keys may not fit into memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import NamedTuple

from wallaroo.dataflow.bucket_logs import Head
from wallaroo.dataflow.stored_records import LocalStoreFailed
from wallaroo.engine.realtime.frames import Appended
from wallaroo.system.disk_space import is_full
from wallaroo.system.unnamed_file import UnnamedFile


class _Part(NamedTuple):
    head: Head
    at: int
    record_size: int
    base_size: int | None


class AppendedFile(MutableMapping[int, Appended]):
    """By bucket, what its log is to have.

    Args:
        directory: Where the file is, which has no name.

    Example:
        >>> import tempfile
        >>> file = AppendedFile(Path(tempfile.gettempdir()))
        >>> file[7] = Appended(Head.of("log"), b"record")
        >>> file.pop(7).record, len(file)
        (b'record', 0)
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._parts: dict[int, _Part] = {}
        self.clear()

    def __setitem__(self, bucket: int, appended: Appended) -> None:
        head, record, base = appended
        with self._guarded():
            at = self._file.append((record, base or b""))
        self._parts[bucket] = _Part(head, at, len(record), None if base is None else len(base))

    def __getitem__(self, bucket: int) -> Appended:
        head, at, record_size, base_size = self._parts[bucket]
        with self._guarded():
            record = self._file.read(at, record_size)
            base = None if base_size is None else self._file.read(at + record_size, base_size)
        return Appended(head, record, base)

    def __delitem__(self, bucket: int) -> None:
        del self._parts[bucket]

    def __iter__(self) -> Iterator[int]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def clear(self) -> None:
        """Begin with an empty file."""
        self._parts.clear()
        with self._guarded():
            self._file = UnnamedFile(self._directory)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            failed = LocalStoreFailed.of(self._directory, error, lacks_room=is_full(error))
            raise failed from error
