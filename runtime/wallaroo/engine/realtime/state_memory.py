"""Keeps the entities of a partition within a number of bytes of memory."""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.spilled_entities import Saving, SpilledEntities
from wallaroo.dataflow.user_logs import log_event
from wallaroo.engine.realtime.local_store import LocalStore
from wallaroo.wire.task_metrics import StoredFigures

_IN_MEMORY = {"tmpfs", "ramfs"}
"""Kinds of file systems that are in memory."""
_MORE = 32
"""Besides those that have to, one in so many entities leaves: each transaction has its costs."""
_MOST_MORE = 1_000
_LEAST_FREED = 10_000
"""Entities after which garbage is collected among old objects, too, if they may be cyclic."""


class StateMemory:
    """The entities of all states of a partition, which share so much memory.

    Args:
        limit_bytes: The memory.
        directory: Where the other entities are.
        serializer: Knows the states, and saves their entities.
        bucket_in: From the number of a state and a key to the key's bucket.
    """

    def __init__(
        self,
        limit_bytes: int,
        directory: Path,
        serializer: EntitySerializer,
        bucket_in: Callable[[int, Any], int],
    ) -> None:
        self.directory, self._limit_bytes = directory, limit_bytes
        self._stores = [LocalStore(directory) for _ in serializer.partitions]
        self.states = [
            SpilledEntities(
                store,
                Saving(
                    partial(serializer.saved_alone, number),
                    partial(serializer.loaded_alone, number),
                    partial(bucket_in, number),
                ),
            )
            for number, store in enumerate(self._stores)
        ]
        """The entities, by number of the state."""
        self._reads = [0] * len(self.states)
        """Entities that had been read when figures were taken last."""
        self._left = 0
        """How many have left since old objects were looked at for garbage."""

    @property
    def stored(self) -> list[int]:
        """Number of entities that are not in memory, by number of the state."""
        return [len(one) - one.in_memory for one in self.states]

    def figures(self, number: int) -> StoredFigures:
        """Figures of the local store of a state, and reads since the last call."""
        store, before = self._stores[number], self._reads[number]
        self._reads[number] = store.reads
        return StoredFigures(self.stored[number], store.size_bytes, store.reads - before)

    def settle(self) -> None:
        """Let entities leave until the others are within the limit; never while a chunk runs.

        Raises:
            LocalStoreFailed: They do not fit on the disk.
        """
        for one in self.states:
            one.settle()
        sizes = [one.memory_bytes for one in self.states]
        if (total := sum(sizes)) <= self._limit_bytes:
            return
        part = (total - self._limit_bytes) / total
        for one, size in zip(self.states, sizes, strict=True):
            if size:
                more = min(one.in_memory // _MORE, _MOST_MORE)
                self._left += one.evict(int(one.in_memory * part) + 1 + more)
        in_memory = sum(one.in_memory for one in self.states)
        if self._left > max(_LEAST_FREED, in_memory):
            self._left = 0
            if any(one.may_be_cyclic for one in self.states):
                gc.unfreeze()  # what `Housekeeping` has frozen, and nothing refers to any more
                gc.collect()
                gc.freeze()


def local_directory() -> Path:
    """The directory for temporary files; the log says if it is in memory, or not as named."""
    directory = Path(tempfile.gettempdir()).resolve()
    named = os.environ.get("TMPDIR")
    if named and Path(named).resolve() != directory:
        log_event(
            "warning",
            "TMPDIR cannot be used: entities that leave memory go to another directory",
            named=named,
            directory=str(directory),
        )
    with contextlib.suppress(OSError, ValueError):
        mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
        above = [(len(at), kind) for at, kind in mounts if directory.is_relative_to(at)]
        if max(above)[1] in _IN_MEMORY:
            log_event(
                "warning",
                "entities that leave memory go to a directory that is in memory itself; let TMPDIR "
                "name one on a disk",
                directory=str(directory),
            )
    return directory
