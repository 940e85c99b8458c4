"""What is published of a query is told only by the outbox that has published it."""

from __future__ import annotations

from pathlib import Path

import pytest

from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.outbox.published import published_changes
from wallaroo.wire.records import Tally


def chunk(number: int, *changes: tuple[int, bytes]) -> FinishedChunk:
    return FinishedChunk(number, number, (), Tally(), changes)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An outbox that has published three chunks of a query."""
    outbox = Outbox(tmp_path / "outbox.db", 1 << 20)
    outbox.publish("run", [chunk(1, (0, b"one")), chunk(2, (1, b"two"), (0, b"three"))])
    outbox.publish("run", [chunk(3)])
    outbox.close()
    return tmp_path / "outbox.db"


def test_changes_of_all_partitions_come_in_order(file: Path) -> None:
    assert published_changes(file, "run", 0) == [b"one", b"two", b"three"]
    assert published_changes(file, "run", 1) == [b"two", b"three"]
    assert published_changes(file, "run", 3) == []


def test_an_outbox_that_has_published_less_or_something_else_does_not_know(file: Path) -> None:
    assert published_changes(file, "run", 4) is None
    assert published_changes(file, "another", 0) is None
    assert published_changes(file.with_name("none"), "run", 0) is None


def test_an_outbox_that_has_published_nothing_knows_that(tmp_path: Path) -> None:
    Outbox(tmp_path / "fresh", 1 << 20).close()
    assert published_changes(tmp_path / "fresh", "run", 0) == []
    assert published_changes(tmp_path / "fresh", "run", 1) is None


def test_an_outbox_in_use_is_read(file: Path) -> None:
    outbox = Outbox(file, 1 << 20)
    outbox.publish("run", [chunk(4, (1, b"four"))])
    assert published_changes(file, "run", 3) == [b"four"]
    with outbox.chunks() as table:
        table.forget("run", 4)
    assert published_changes(file, "run", 3) == []
    outbox.close()
