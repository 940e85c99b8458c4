"""What takes the place of messages that are lost bears the time of the journal's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gateway.harness import opened
from tests.gateway.log_files import flip, places
from tests.helpers import PATIENCE_S
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.entries import MESSAGES
from wallaroo.gateway.journal.clock import ALLOWANCE_NS
from wallaroo.gateway.marks import MarkWriter, read_mark
from wallaroo.wire.records import TICK_SOURCE

DAY_NS = 86_400 * 10**9


def damage(directory: Path) -> None:
    first, *_ = places(directory, MESSAGES)
    flip(first.file, first.end - 1)


def damage_all(directory: Path) -> None:
    for place in places(directory, MESSAGES):
        flip(place.file, place.end - 1)


def lose(directory: Path) -> None:
    """Let the mark say that there were more messages."""
    mark = read_mark(directory / LOG)
    assert mark is not None
    writer = MarkWriter(directory / LOG)
    writer.note(mark._replace(record=mark.record + 3, end=mark.end + 3))
    writer.close()


@pytest.mark.parametrize("make", [damage, damage_all, lose])
def test_a_wall_clock_that_is_a_day_ahead_does_not_count(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    with opened(tmp_path) as store:
        for _ in range(2):
            store.journal.submit(0, 2, b"a b")
            assert store.journal.flush(PATIENCE_S)
    make(tmp_path)
    with opened(tmp_path, skip_damaged=True, clock=lambda: time.time_ns() + DAY_NS) as store:
        read = list(store.journal.read(0, store.journal.end))
    (at_ns,) = [block.arrived_ns for block in read if block.source == TICK_SOURCE]
    assert at_ns <= time.time_ns() + ALLOWANCE_NS
    assert [block.arrived_ns for block in read] == sorted(block.arrived_ns for block in read)
