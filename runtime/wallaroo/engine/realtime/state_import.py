"""Import of entities into the state of a query that does not run, as an epoch of the query.

Threads take the place of the processes that run the application. The epoch has no chunks, and ends
where the last one ended; Spark commits what it appends to the logs of buckets whole, or drops it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import tempfile
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wallaroo.dataflow.entities import Head
from wallaroo.dataflow.packing import Packed
from wallaroo.engine.base import StateLayout
from wallaroo.engine.realtime.frames import (
    DONE,
    END_OF_EPOCH,
    HEAD,
    OPEN,
    SAVE,
    Appended,
    FrameSocket,
    bucket_in,
    head_in,
    pack_appended,
    pack_bucket,
    pack_slot,
)
from wallaroo.engine.realtime.messages import READER, Place
from wallaroo.engine.realtime.process import socket_of
from wallaroo.engine.realtime.settings import LONGEST_EPOCH_MS
from wallaroo.engine.spark.checkpoint import owner
from wallaroo.engine.spark.errors import cause_of
from wallaroo.engine.spark.slots import slots_for
from wallaroo.errors import RuntimeFailure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RECORD = struct.Struct(">II")
"""Bucket and size of a record, which follows."""
_LOOK_EVERY_S = 0.05
"""Pause between looks at whether the query has failed."""


class _Part(NamedTuple):
    """Where a record is in the file."""

    start: int
    size: int


def write_rows(packed: Iterable[Sequence[Packed]], file: Path) -> None:
    """Write the records to append to logs of buckets to *file*, for `import_state`."""
    with file.open("wb") as out:
        for batch in packed:
            for one in batch:
                out.write(_RECORD.pack(one.bucket, len(one.blob)))
                out.write(one.blob)


def import_state(session: SparkSession, layout: StateLayout, file: Path, name: str) -> None:
    """Append to the logs of buckets; nothing is done that an interrupted call has begun.

    Args:
        session: Spark, with a task for the first stage and for each partition at a time.
        layout: The state; the query must not run.
        file: What `write_rows` wrote.
        name: Name of the import.

    Raises:
        RuntimeFailure: Spark failed.
    """
    owner.take(layout.checkpoint, "real-time")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="wallaroo-") as directory,
            _Import(Path(directory), layout, file, name) as parts,
        ):
            _run(session, Path(directory), layout, parts)
    except Exception as error:
        msg = f"Spark did not import into {layout.checkpoint}: {cause_of(str(error))}"
        raise RuntimeFailure(msg) from error


def _run(session: SparkSession, directory: Path, layout: StateLayout, parts: _Import) -> None:
    jvm: Any = session._jvm
    query = jvm.wallaroo.realtime.Query.start(
        session._jsparkSession,
        layout.application,
        str(directory),
        str(layout.checkpoint),
        Place().to_json(),
        LONGEST_EPOCH_MS,
    )
    try:
        while not parts.committed.wait(_LOOK_EVERY_S):
            if not query.isActive():
                error = query.exception()
                reason = "the query stopped" if error.isEmpty() else str(error.get().toString())
                raise RuntimeError(reason)
    finally:
        query.stop()
        jvm.wallaroo.realtime.Bridge.forgetAll(str(directory))


class _Import:
    """What serves Java in the place of a query's processes; a context manager.

    Args:
        directory: Where the sockets are.
        layout: The state.
        file: The records.
        name: Name of the import.
    """

    def __init__(self, directory: Path, layout: StateLayout, file: Path, name: str) -> None:
        self.committed = threading.Event()
        """Set when Spark has committed the epoch."""
        self._slots = slots_for(layout.buckets)
        self._name = name
        self._file = file.open("rb")
        self._parts = self._index()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(socket_of(directory, READER), self._serve_reader)
        for partition in range(layout.partitions):
            self._start(socket_of(directory, partition), self._serve_partition)

    def __enter__(self) -> _Import:
        return self

    def __exit__(self, *_exc: object) -> None:
        for listener in self._sockets:
            listener.shutdown(socket.SHUT_RDWR)  # Java has not come
            listener.close()
        for thread in self._threads:
            thread.join()
        self._file.close()

    def _start(self, path: Path, serve: Callable[[FrameSocket], None]) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(1)
        self._sockets.append(listener)

        def work() -> None:
            with contextlib.suppress(OSError, EOFError):  # Java is gone, which `_run` finds
                connection, _ = listener.accept()
                with contextlib.closing(FrameSocket(connection)) as java:
                    serve(java)

        self._threads.append(threading.Thread(target=work, name=path.stem, daemon=True))
        self._threads[-1].start()

    def _index(self) -> dict[int, deque[_Part]]:
        """By bucket, where its records are."""
        found: dict[int, deque[_Part]] = defaultdict(deque)
        place = 0
        while header := os.pread(self._file.fileno(), _RECORD.size, place):
            bucket, size = _RECORD.unpack(header)
            place += _RECORD.size
            found[bucket].append(_Part(place, size))
            place += size
        return found

    def _serve_reader(self, java: FrameSocket) -> None:
        """Let the partitions append all records, and end the epoch; then Spark begins another."""
        start = java.receive()
        if start is None:
            raise EOFError
        for bucket, parts in self._parts.items():
            slot = pack_slot(self._slots[bucket])
            java.send(slot, pack_bucket(OPEN, bucket))
            for _ in range(len(parts)):
                java.send(slot, pack_bucket(SAVE, bucket))
        place = Place.from_json(start)._replace(imported=self._name)
        java.send(pack_slot(END_OF_EPOCH), place.to_json().encode())
        if java.receive() is not None:
            self.committed.set()
            java.receive()  # until Java closes the connection

    def _serve_partition(self, java: FrameSocket) -> None:
        heads: dict[int, Head] = {}
        while (frame := java.receive()) is not None:
            bucket = bucket_in(frame)
            if frame[:1] == OPEN:
                heads[bucket] = _head(java)
            else:
                part = self._parts[bucket].popleft()
                record = os.pread(self._file.fileno(), part.size, part.start)
                heads[bucket] = heads[bucket].appended(len(record))
                java.send(*pack_appended(Appended(heads[bucket], record)))


def _head(java: FrameSocket) -> Head:
    """The head of the log that *java* sends."""
    head = Head()
    while (frame := java.receive()) is not None and frame[:1] != DONE:
        if frame[:1] == HEAD:
            head = head_in(frame)
    if frame is None:
        raise EOFError
    return head
