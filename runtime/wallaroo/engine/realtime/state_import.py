"""Import of entities into the state of a query that does not run, as an epoch of the query.

Its processes append what is imported instead of running chunks. The epoch has no chunks, and
ends where the last one ended; Spark commits what it appends to the logs of buckets whole, or drops
it.
"""

from __future__ import annotations

import math
import os
import struct
import time
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wallaroo.dataflow.bucket_logs import Head, log_name
from wallaroo.engine.realtime.checkpoint import is_imported
from wallaroo.engine.realtime.frames import (
    DONE,
    END_OF_EPOCH,
    HEAD,
    OPEN,
    SAVE,
    Appended,
    bucket_in,
    head_in,
    pack_bucket,
    pack_slot,
    send_appended,
)
from wallaroo.engine.realtime.java import start_query, why_ended
from wallaroo.engine.spark.checkpoint.epochs import run_of
from wallaroo.engine.spark.errors import cause_of
from wallaroo.engine.spark.slots import slots_for
from wallaroo.engine.stored import StateLayout
from wallaroo.errors import RuntimeFailure
from wallaroo.wire.chunk_messages import READER, CheckpointPosition
from wallaroo.wire.frame_socket import FrameSocket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RECORD = struct.Struct(">II")
"""Bucket and size of a record, which follows."""
_LOOK_EVERY_S = 0.05
"""Pause between looks at how far the query is."""


class _Part(NamedTuple):
    """Where a record is in the file."""

    start: int
    size: int


def write_rows(records: Iterable[tuple[int, bytes]], file: Path) -> None:
    """Write *records*, each with the bucket to whose log it belongs, for `import_state`."""
    with file.open("wb") as out:
        for bucket, record in records:
            out.write(_RECORD.pack(bucket, len(record)))
            out.write(record)


def import_state(session: SparkSession, layout: StateLayout, file: Path, name: str) -> None:
    """Append to the logs of buckets; Spark drops what an interrupted call has appended.

    Args:
        session: Spark, with a task for the first stage and for each partition at a time.
        layout: The state; the query must not run.
        file: What `write_rows` wrote.
        name: Name of the import.

    Raises:
        RuntimeFailure: Spark failed.
    """
    layout.checkpoint.mkdir(parents=True, exist_ok=True)
    job = ImportJob(file, name, slots_for(layout.buckets), layout.checkpoint)
    try:
        run_import(session, job, layout, session._jvm.wallaroo.realtime.Agent.fresh())
    except Exception as error:
        msg = f"Spark did not import into {layout.checkpoint}: {cause_of(str(error))}"
        raise RuntimeFailure(msg) from error


def run_import(
    session: SparkSession,
    job: ImportJob,
    layout: StateLayout,
    attempt: int,
    patience_s: float = math.inf,
) -> None:
    """Run the query until the import is committed.

    Args:
        session: Spark.
        job: What its processes do.
        layout: The state.
        attempt: Number of the query; negative for one that runs beside another.
        patience_s: Seconds that it may take.

    Raises:
        RuntimeError: The query has failed, or takes too long.
    """
    give_up = time.monotonic() + patience_s
    query = start_query(
        session, layout.application, attempt, job, layout.partitions, layout.checkpoint
    )
    try:
        while not is_imported(layout.checkpoint, job.name):
            if not query.isActive():
                raise RuntimeError(why_ended(query))
            if time.monotonic() > give_up:
                msg = f"no end after {patience_s:.0f} s"
                raise RuntimeError(msg)
            time.sleep(_LOOK_EVERY_S)
    finally:
        query.stop()
        jvm: Any = session._jvm
        jvm.wallaroo.realtime.Agent.end(attempt)


@dataclass(frozen=True)
class ImportJob:
    """The job of the processes of a query that only imports."""

    file: Path
    """What `write_rows` wrote."""
    name: str
    """Name of the import."""
    slots: tuple[int, ...]
    """For each bucket, the number that Spark's exchange hashes."""
    checkpoint: Path
    """Directory of the query's checkpoint."""

    def serve(self, role: int, java: FrameSocket) -> None:
        """Be the process *role*, until Java closes the connection.

        Raises:
            OSError: The connection is broken.
        """
        with self.file.open("rb") as opened:
            parts = _parts(opened.fileno())
            if role == READER:
                self._serve_reader(parts, java)
            else:
                self._serve_partition(opened.fileno(), parts, java)

    def _serve_reader(self, parts: dict[int, deque[_Part]], java: FrameSocket) -> None:
        """Let the partitions append all records, and end the epoch; the next one never ends."""
        start = java.receive()
        if start is None:
            return
        for bucket, of_bucket in parts.items():
            slot = pack_slot(self.slots[bucket])
            java.send(slot, pack_bucket(OPEN, bucket))
            for _ in of_bucket:
                java.send(slot, pack_bucket(SAVE, bucket))
        place = CheckpointPosition.from_json(start)._replace(imported=self.name)
        java.send(pack_slot(END_OF_EPOCH), place.to_json().encode())
        while java.receive() is not None:
            pass

    def _serve_partition(
        self, file: int, parts: dict[int, deque[_Part]], java: FrameSocket
    ) -> None:
        """Append the records of the partition's buckets to their logs."""
        heads: dict[int, Head] = {}
        while (frame := java.receive()) is not None:
            bucket = bucket_in(frame)
            if frame[:1] == OPEN:
                log = log_name(run_of(self.checkpoint), bucket)
                heads[bucket] = _head(java) or Head.of(log)
            else:
                part = parts[bucket].popleft()
                record = os.pread(file, part.size, part.start)
                heads[bucket] = heads[bucket].appended(record, heads[bucket].at)
                send_appended(java, Appended(heads[bucket], record))


def _head(java: FrameSocket) -> Head | None:
    """The head of the log that *java* sends; None if it has none."""
    head = None
    while (frame := java.receive()) is not None and frame[:1] != DONE:
        if frame[:1] == HEAD:
            head = head_in(frame)
    return head


def _parts(file: int) -> dict[int, deque[_Part]]:
    """By bucket, where its records are in *file*."""
    found: dict[int, deque[_Part]] = defaultdict(deque)
    place = 0
    while header := os.pread(file, _RECORD.size, place):
        bucket, size = _RECORD.unpack(header)
        place += _RECORD.size
        found[bucket].append(_Part(place, size))
        place += size
    return found
