"""What takes the place of messages that are lost bears the time of the journal's clock."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.helpers import PATIENCE_S
from wallaroo.gateway.database import reading
from wallaroo.gateway.journal import positions
from wallaroo.gateway.journal.clock import ALLOWANCE_NS, SteadyClock
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.marks import MarkWriter, read_mark
from wallaroo.gateway.startup import take
from wallaroo.wire.records import TICK_SOURCE

DAY_NS = 86_400 * 10**9


def damage(directory: Path) -> None:
    with contextlib.closing(sqlite3.connect(directory / "journal.db", isolation_level=None)) as one:
        one.execute("UPDATE chunk SET data = x'00'")


def lose(directory: Path) -> None:
    """Let the mark say that there were more messages."""
    mark = read_mark(directory / "journal.db")
    assert mark is not None
    writer = MarkWriter(directory / "journal.db")
    writer.note(mark.name, mark.reached + 3)
    writer.close()


@pytest.mark.parametrize("make", [damage, lose])
def test_a_wall_clock_that_is_a_day_ahead_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    os.close(take(tmp_path, "Votes"))
    journal = Journal(tmp_path / "journal.db", JournalLimits())
    journal.submit(0, 2, b"a b")
    assert journal.flush(PATIENCE_S)
    journal.close()
    make(tmp_path)
    now = time.time_ns

    def ahead() -> int:
        return now() + DAY_NS

    monkeypatch.setattr(time, "time_ns", ahead)
    monkeypatch.setattr(positions, "SteadyClock", partial(SteadyClock, ahead))
    os.close(take(tmp_path, "Votes", ["lines"], skip_damaged=True))
    with reading(tmp_path / "journal.db") as database:
        rows = database.execute("SELECT source, arrived_ns FROM chunk").fetchall()
    (at_ns,) = [arrived_ns for source, arrived_ns in rows if source == TICK_SOURCE]
    assert at_ns <= now() + ALLOWANCE_NS
