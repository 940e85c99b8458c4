"""Chunks in the outbox: published together, in order, with the changes of state or not at all."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from wallaroo.gateway.database import DamagedDatabase
from wallaroo.gateway.outbox import chunks as module
from wallaroo.gateway.outbox.chunks import FinishedChunk, QueryProgress, joined
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.wire.records import Outputs, Tally


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    made = Outbox(tmp_path / "outbox.db", 1 << 20)
    yield made
    made.close()


def outputs(*texts: bytes, sink: int = 0) -> Outputs:
    return Outputs(sink, array("I", map(len, texts)).tobytes(), b"".join(texts))


def chunk(number: int, *of_sinks: Outputs, record: bytes = b"") -> FinishedChunk:
    changes = [(1, record)] if record else []
    return FinishedChunk(number, 10 * number, of_sinks, Tally(), changes)


def test_chunks_of_one_publication_are_delivered_in_order(outbox: Outbox) -> None:
    outbox.publish("run", [chunk(1, outputs(b"a", b"bc"), outputs(b"x", sink=1))])
    outbox.publish("run", [chunk(2, outputs(b"d")), chunk(3), chunk(4, outputs(b"ef"))])
    first = outbox.next(0, 0, 0)
    assert first is not None
    second = outbox.next(0, first.position, 0)
    assert second is not None
    assert (first.outputs.data, first.number) == (b"abc", 1)
    assert (second.outputs.data, second.number) == (b"def", 3)
    assert outbox.undelivered == 5
    assert outbox.counters()["published"] == 5
    with outbox.chunks() as table:
        assert table.progress() == {"run": QueryProgress(4, 40)}


def test_what_cannot_be_committed_leaves_nothing(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_place: str) -> None:
        raise OSError

    outbox.publish("run", [chunk(1, outputs(b"a"), record=b"one")])
    with monkeypatch.context() as patch:
        patch.setattr("wallaroo.gateway.outbox.outbox.fault", fail)
        with pytest.raises(OSError):  # noqa: PT011
            outbox.publish("run", [chunk(2, outputs(b"b"), record=b"two")])
    assert outbox.undelivered == 1
    with outbox.chunks() as table:
        assert table.progress() == {"run": QueryProgress(1, 10)}
        assert list(table.changes("run", 1, 0)) == [b"one"]


def test_changes_come_in_order_until_they_are_forgotten(outbox: Outbox) -> None:
    outbox.publish("run", [chunk(n, record=b"%d" % n) for n in range(1, 12)])
    with outbox.chunks() as table:
        assert list(table.changes("run", 1, 8)) == [b"9", b"10", b"11"]
        assert not list(table.changes("run", 0, 0))
        table.forget("run", 10)
        assert list(table.changes("run", 1, 0)) == [b"11"]


def test_large_changes_lie_in_several_rows(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROW_BYTES", 1_000)
    outbox._database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 5_000)
    sizes = [1, 999, 1_000, 1_001, 3_000, 70_000]
    sent = {n: bytes([n]) * size for n, size in enumerate(sizes, 1)}
    both = [[(0, record), (1, record[::-1]), (1, b"later level")] for record in sent.values()]
    outbox.publish(
        "run", [FinishedChunk(n, 10 * n, [], Tally(), changes) for n, changes in enumerate(both, 1)]
    )
    with outbox.chunks() as table:
        for partition in (0, 1):
            expected = [record for chunk in both for at, record in chunk if at == partition]
            assert table.changes("run", partition, 0) == expected
        assert table.all_changes("run", 4) == [record for chunk in both[4:] for _, record in chunk]
        table.forget("run", 6)
        assert table.all_changes("run", 0) == []


def test_large_outputs_are_delivered_in_pieces() -> None:
    large = bytes(700_000)
    pieces = list(joined([chunk(1, outputs(large)), chunk(2, outputs(large), outputs(b"a"))]))
    assert [len(piece.data) for piece in pieces] == [700_000, 700_001]


@pytest.mark.parametrize("damage", ["record = x'00'", "more = 1", "partition = 4", "chunk = 3"])
def test_damaged_changes_are_found_when_they_are_read(outbox: Outbox, damage: str) -> None:
    outbox.publish("run", [chunk(1, record=b"first"), chunk(2, record=b"later")])
    outbox._database.execute(f"UPDATE change SET {damage} WHERE chunk = 2")
    with outbox.chunks() as table, pytest.raises(DamagedDatabase, match="changes of state in part"):
        table.all_changes("run", 0)
