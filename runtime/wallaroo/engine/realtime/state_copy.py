"""Notes of a small state beside the checkpoint, from which commands read it without Spark.

At the end of an epoch each partition notes all its entities, if they are few. The state at the end
of a chunk is the same however it was reached, so a note is valid if it is of the chunk with which
the last committed epoch ended. Everything else reads Spark's state store, and so do commands if a
note is missing or of another chunk.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from wallaroo.dataflow.buckets import Changes
from wallaroo.engine.realtime.partition_state import PartitionState
from wallaroo.errors import RuntimeFailure
from wallaroo.system.object_store import is_stored
from wallaroo.wire.chunk_messages import CheckpointPosition

_FOLDER = "noted"
_MOST_ENTITIES = 20_000
"""Entities of a partition above which nothing is noted: it would delay the end of an epoch."""
_MOST_BYTES = 4 * 1024**2
"""The same for the size of a note."""


def note(
    checkpoint: Path,
    partition: int,
    of: int,
    chunk: int,
    state: PartitionState,
) -> None:
    """Note all entities of a partition, or that they are too many.

    Args:
        checkpoint: Directory of the query's checkpoint.
        partition: Number of the partition.
        of: Number of partitions.
        chunk: Chunk at the end of which these are the entities.
        state: The entities, also those of states that the application does not have.
    """
    file, bucket = checkpoint / _FOLDER / str(partition), state.bucket
    record = None
    if sum(map(len, bucket.entities)) + len(state.others) <= _MOST_ENTITIES:
        none: list[set[Any]] = [set() for _ in bucket.entities]
        with contextlib.suppress(RuntimeFailure):  # an entity that cannot be saved
            entities = [dict(of.items()) for of in bucket.entities]
            changes = Changes(entities, none, dict(bucket.times))
            record = state.serializer.record(
                changes, bucket.unloaded, grown=False, others=state.others.all_of()
            )
    fresh = file.with_name(f".{file.name}.new")
    try:
        if record is None or len(record) > _MOST_BYTES:
            file.unlink(missing_ok=True)
            return
        file.parent.mkdir(mode=0o700, exist_ok=True)
        head = {"chunk": chunk, "partitions": of, "sha256": hashlib.sha256(record).hexdigest()}
        if is_stored(file):
            file.write_bytes(json.dumps(head).encode() + b"\n" + record)
            return
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(json.dumps(head).encode() + b"\n" + record)
        fresh.replace(file)
    except (OSError, RuntimeFailure):  # an earlier chunk's note stays
        return


def noted(checkpoint: Path, partitions: int, place: CheckpointPosition) -> list[bytes] | None:
    """The records of all entities at *place*, where the last committed epoch ended.

    Returns:
        None unless all partitions have noted theirs.
    """
    if place.imported is not None:  # the notes are from before
        return None
    found: list[bytes] = []
    for partition in range(partitions):
        try:
            line, _, record = (checkpoint / _FOLDER / str(partition)).read_bytes().partition(b"\n")
            head = json.loads(line)
        except (OSError, ValueError):
            return None
        digest = hashlib.sha256(record).hexdigest()
        if head != {"chunk": place.chunk, "partitions": partitions, "sha256": digest}:
            return None
        found.append(record)
    return found
