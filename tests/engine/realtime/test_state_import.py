"""An import is an epoch of the query, and nothing else of the state changes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.engine.realtime.harness import StandIn, Store
from tests.helpers import wait_until
from wallaroo.dataflow.log_rows import records_in
from wallaroo.engine.realtime.state_import import ImportJob, write_rows
from wallaroo.engine.spark.slots import slots_for
from wallaroo.wire.chunk_messages import READER, CheckpointPosition
from wallaroo.wire.frame_socket import FrameSocket

PARTITIONS, BUCKETS = 2, 16
SLOTS = slots_for(BUCKETS)
PACKED = [(3, b"one"), (4, b"two"), (3, b"_"), (3, b"three" * 100_000), (15, b"four")]
RECORDS = {3: [b"one", b"_", b"three" * 100_000], 4: [b"two"], 15: [b"four"]}
"""By bucket, in order."""


def imported(directory: Path, store: Store, packed: Sequence[tuple[int, bytes]], name: str) -> None:
    """Import *packed* into what the stand-in for Spark has committed."""
    write_rows(packed, directory / "rows")
    (directory / "metadata").write_text('{"id":"a"}')
    job = ImportJob(directory / "rows", name, SLOTS, directory)
    ends: list[FrameSocket] = []
    served: list[FrameSocket] = []
    threads: list[threading.Thread] = []
    for role in (READER, *range(PARTITIONS)):
        java, ours = map(FrameSocket, socket.socketpair())
        ends.append(java)
        served.append(ours)
        threads.append(threading.Thread(target=job.serve, args=(role, ours)))
    threads.append(threading.Thread(target=StandIn(ends[0], ends[1:]).run, args=(store,)))
    before = store.commits
    for thread in threads:
        thread.start()
    wait_until(lambda: store.commits > before, "the commit")
    for java in ends:
        java.close()
    for thread in threads:
        thread.join()
    for one in served:
        one.close()
    assert store.commits == before + 1


def logs(store: Store) -> dict[int, list[bytes]]:
    """By bucket, the records of its log in order."""
    return {
        SLOTS.index(slot): list(records_in(rows.items())) for slot, (_, rows) in store.logs.items()
    }


def test_records_are_appended_and_the_place_stays(tmp_path: Path) -> None:
    store = Store()
    store.place = CheckpointPosition(70, 7, "opening").to_json()
    imported(tmp_path, store, PACKED, "first")
    assert logs(store) == RECORDS
    assert CheckpointPosition.from_json(store.place) == CheckpointPosition(
        70, 7, "opening", "first"
    )

    imported(tmp_path, store, [(4, b"more"), (5, b"new")], "second")
    assert logs(store) == {**RECORDS, 4: [b"two", b"more"], 5: [b"new"]}
    assert CheckpointPosition.from_json(store.place) == CheckpointPosition(
        70, 7, "opening", "second"
    )


def test_an_import_of_nothing_is_noted(tmp_path: Path) -> None:
    store = Store()
    imported(tmp_path, store, [], "nothing")
    assert logs(store) == {}
    assert CheckpointPosition.from_json(store.place) == CheckpointPosition(imported="nothing")
