"""The files of entities that are not in memory."""

from __future__ import annotations

import os
import random
import sqlite3
from pathlib import Path

import pytest

from wallaroo.dataflow.stored_records import LocalStoreFailed, Record
from wallaroo.engine.realtime import local_store
from wallaroo.engine.realtime.local_store import LocalStore


def record(number: int, size: int = 100) -> Record:
    return Record(number, number % 4, b"%d" % number, b"x" * size)


def test_obsolete_records_are_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_store, "_SEGMENT_BYTES", 20_000)
    monkeypatch.setattr(local_store, "_BLOCK_BYTES", 2_000)
    store, choose = LocalStore(tmp_path), random.Random(0)
    store.write([record(number) for number in range(1_000)])
    for _ in range(200):
        some = [choose.randrange(1_000) for _ in range(100)]
        found = store.find(list(set(some)))
        store.remove([one.place for one in found])
        store.tidy()
        store.write([one._replace(entity=one.entity[::-1]) for one in found])
        store.tidy()
        assert store.count == 1_000
    assert store.size_bytes < 2.5 * 1_000 * (100 + 30)
    assert sorted(one.hash for piece in store.pieces() for one in piece) == list(range(1_000))
    store.remove([one.place for one in store.find(list(range(1_000)))])
    assert store.size_bytes < 40_000
    assert list(store.pieces()) in ([], [[]]) or not any(store.pieces())


def test_no_file_has_a_name(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.write([record(1)])
    assert not list(tmp_path.iterdir())


def test_records_of_any_size_are_read(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    sizes = [0, 1, 3_000_000, 5, 2_000_000]
    store.write([record(number, size) for number, size in enumerate(sizes)])
    assert [len(one.entity) for one in store.find(range(5))] == sizes
    assert [len(one.entity) for piece in store.pieces() for one in piece] == sizes
    of_buckets = {bucket: [one.hash for one in of] for bucket, of in store.of_buckets([0, 3, 7])}
    assert of_buckets == {0: [0, 4], 3: [3], 7: []}


def test_a_fork_reads_what_its_parent_has(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.write([record(number) for number in range(5_000)])
    child = os.fork()
    if child == 0:
        found = store.find(list(range(0, 5_000, 3)))
        os._exit(0 if len(found) == 1_667 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.write([record(number) for number in range(5_000, 6_000)])
    assert len(store.find(list(range(6_000)))) == 6_000


def test_a_full_disk_ends_it_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.write([record(1)])

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(LocalStoreFailed, match=r"No space left on device; make room there") as one:
        store.write([record(2)])
    assert str(tmp_path) in str(one.value)
    monkeypatch.undo()
    for call in (lambda: store.find([1]), store.tidy, lambda: store.write([record(3)])):
        with pytest.raises(LocalStoreFailed, match="No space left"):
            call()


def test_other_bytes_than_those_written_are_not_taken(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.write([record(1)])
    os.pwrite(store._segments[0].descriptor, b"y", 60)
    with pytest.raises(LocalStoreFailed, match="not as it was written"):
        store.find([1])


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalStoreFailed, match=r"missing failed: .*No such file"):
        LocalStore(tmp_path / "missing")


def test_the_index_needs_no_lock_or_journal(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert isinstance(store._index, sqlite3.Connection)
    assert store._index.execute("PRAGMA journal_mode").fetchone() == ("off",)
