"""An import is an epoch of the query: whole or not at all, and nothing else of the state changes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.engine.realtime.harness import StandIn, Store
from tests.helpers import wait_until
from wallaroo.dataflow.packing import Packed
from wallaroo.engine.base import StateLayout
from wallaroo.engine.realtime.frames import FrameSocket
from wallaroo.engine.realtime.messages import READER, Place
from wallaroo.engine.realtime.process import socket_of
from wallaroo.engine.realtime.state_import import _Import, write_rows
from wallaroo.engine.spark.slots import slots_for

PARTITIONS, BUCKETS = 2, 16
SLOTS = slots_for(BUCKETS)
PACKED = [
    [Packed(1, 3, b"one"), Packed(1, 4, b"two"), Packed(2, 3, b"")],
    [Packed(1, 3, b"three" * 100_000), Packed(2, 15, b"four")],
]
RECORDS = {3: [b"one", b"", b"three" * 100_000], 4: [b"two"], 15: [b"four"]}
"""By bucket, in order."""


def imported(directory: Path, store: Store, packed: Sequence[Sequence[Packed]], name: str) -> None:
    """Import *packed* into what the stand-in for Spark has committed."""
    layout = StateLayout("application", PARTITIONS, BUCKETS, directory)
    write_rows(packed, directory / "rows")
    with _Import(directory, layout, directory / "rows", name) as parts:
        java = [connect(directory, role) for role in (READER, *range(PARTITIONS))]
        spark = threading.Thread(target=StandIn(java[0], java[1:]).run, args=(store,))
        spark.start()
        assert parts.committed.wait(20)
        for one in java:
            one.close()
    spark.join(20)


def connect(directory: Path, role: int) -> FrameSocket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(socket_of(directory, role)))
    return FrameSocket(connection)


def logs(store: Store) -> dict[int, list[bytes]]:
    """By bucket, the records of its log in order."""
    return {
        SLOTS.index(slot): [record for _, record in sorted(records.items())]
        for slot, (_, records) in store.logs.items()
    }


def test_records_are_appended_and_the_place_stays(tmp_path: Path) -> None:
    store = Store()
    store.place = Place(70, 7, "opening").to_json()
    imported(tmp_path, store, PACKED, "first")
    assert logs(store) == RECORDS
    assert Place.from_json(store.place) == Place(70, 7, "opening", "first")
    assert store.commits == 1

    again = tmp_path / "again"
    again.mkdir()
    imported(again, store, [[Packed(1, 4, b"more"), Packed(1, 5, b"new")]], "second")
    assert logs(store) == {**RECORDS, 4: [b"two", b"more"], 5: [b"new"]}
    assert Place.from_json(store.place) == Place(70, 7, "opening", "second")


def test_an_import_of_nothing_is_noted(tmp_path: Path) -> None:
    store = Store()
    imported(tmp_path, store, [], "nothing")
    assert logs(store) == {}
    assert Place.from_json(store.place) == Place(imported="nothing")


@pytest.mark.parametrize("comes", [False, True])
def test_an_import_ends_although_java_is_gone(tmp_path: Path, comes: bool) -> None:
    layout = StateLayout("application", PARTITIONS, BUCKETS, tmp_path)
    write_rows(PACKED, tmp_path / "rows")
    before = threading.active_count()
    with _Import(tmp_path, layout, tmp_path / "rows", "name") as parts:
        if comes:
            java = connect(tmp_path, READER)
            java.send(Place().to_json().encode())
            java.receive()
            java.close()
    assert not parts.committed.is_set()
    wait_until(lambda: threading.active_count() <= before, "the end of all threads")
