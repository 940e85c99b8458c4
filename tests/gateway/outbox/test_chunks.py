"""Chunks in the outbox: published together, in order, with the changes of state or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.harness import opened, publish
from tests.helpers import wait_until
from wallaroo.gateway.outbox.chunks import FinishedChunk, QueryProgress, joined
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.store import Store
from wallaroo.wire.records import Outputs, Tally


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path) as made:
        yield made


@pytest.fixture
def outbox(store: Store) -> Outbox:
    return store.outbox


def outputs(*texts: bytes, sink: int = 0) -> Outputs:
    return Outputs.of(sink, texts)


def chunk(number: int, *of_sinks: Outputs, record: bytes = b"") -> FinishedChunk:
    changes = [(1, record)] if record else []
    return FinishedChunk(number, 10 * number, of_sinks, Tally(), changes)


def test_chunks_of_one_publication_are_delivered_in_order(outbox: Outbox) -> None:
    publish(outbox, chunk(1, outputs(b"a", b"bc"), outputs(b"x", sink=1)))
    publish(outbox, chunk(2, outputs(b"d")), chunk(3), chunk(4, outputs(b"ef")))
    first = outbox.next(0, 0, 0)
    assert first is not None
    second = outbox.next(0, first.position, 0)
    assert second is not None
    assert (first.outputs.data, first.number) == (b"abc", 1)
    assert (second.outputs.data, second.number) == (b"def", 3)
    assert outbox.undelivered == 5
    assert outbox.counters()["published"] == 5
    assert outbox.progress() == {"run": QueryProgress(4, 40)}


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    failures: list[Exception] = []

    def fail(*_arguments: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with opened(tmp_path, on_failure=failures.append) as store:
        publish(store, chunk(1, outputs(b"a"), record=b"one"))
        store.writer.log._disk.pwritev = fail
        store.outbox.publish("run", [chunk(2, outputs(b"b"), record=b"two")])
        wait_until(lambda: failures, "the failure")
        assert store.outbox.undelivered == 1
        assert store.outbox.next(0, 1, 0.0) is None
    with opened(tmp_path) as store:
        assert store.outbox.undelivered == 1
        assert store.outbox.progress() == {"run": QueryProgress(1, 10)}
        assert list(store.outbox.changes("run", 0, 1)) == [b"one"]


def test_changes_come_in_order_until_they_are_forgotten(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for first in (1, 4, 8):
            numbers = range(first, {1: 4, 4: 8, 8: 12}[first])
            publish(store, *(chunk(n, record=b"%d" % n) for n in numbers))
    with opened(tmp_path) as store:
        outbox = store.outbox
        assert list(outbox.changes("run", 8, 1)) == [b"9", b"10", b"11"]
        assert not list(outbox.changes("run", 0, 0))
        assert not list(outbox.changes("another", 0, 1))
        outbox.forget("run", 10)
    with opened(tmp_path) as store:
        assert list(store.outbox.changes("run", 10, 1)) == [b"11"]
        assert store.outbox.chunks.forgotten == {"run": 10}


def test_changes_of_any_size_come_whole(outbox: Outbox) -> None:
    sizes = [1, 999, 1_000, 1_001, 3_000, 70_000, 3_000_000]
    sent = {n: bytes([n]) * size for n, size in enumerate(sizes, 1)}
    both = [[(0, record), (1, record[::-1]), (1, b"later level")] for record in sent.values()]
    publish(
        outbox,
        *(FinishedChunk(n, 10 * n, [], Tally(), changes) for n, changes in enumerate(both, 1)),
    )
    for partition in (0, 1):
        expected = [record for chunk in both for at, record in chunk if at == partition]
        assert list(outbox.changes("run", 0, partition)) == expected
    assert list(outbox.changes("run", 4)) == [record for chunk in both[4:] for _, record in chunk]
    outbox.forget("run", len(sizes))
    assert list(outbox.changes("run", 0)) == []


def test_large_outputs_are_delivered_in_pieces() -> None:
    large = bytes(700_000)
    pieces = list(joined([outputs(large), outputs(large), outputs(b"a")]))
    assert [len(piece.data) for piece in pieces] == [700_000, 700_001]
