"""Streams are remembered while they are used, and as long as there is room."""

from __future__ import annotations

import time
from pathlib import Path

from tests.helpers import PATIENCE_S
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.stream_positions import StreamName
from wallaroo.gateway.journal.write_buffer import JournalLimits

DAY_NS = 24 * 3600 * 10**9


def _with_message(path: Path, name: StreamName, number: int, days_ago: int = 0) -> None:
    """A journal in which *name* had its message *number* so long ago."""
    journal = Journal(path, JournalLimits(), clock=lambda: time.time_ns() - days_ago * DAY_NS)
    journal.submit(name.source, 1, b"\0\0\0\1m", (name, number))
    assert journal.stream_positions.wait(name, number, PATIENCE_S)
    journal.close()


def test_a_stream_unused_for_a_month_makes_room_for_another(tmp_path: Path) -> None:
    old, recent, new = (StreamName(0, name) for name in ("old", "recent", "new"))
    path = tmp_path / "journal.db"
    _with_message(path, old, 7, days_ago=31)
    _with_message(path, recent, 9, days_ago=29)
    journal = Journal(path, JournalLimits(streams=2))
    assert journal.stream_positions.open(old) == 7  # there is room: it is remembered
    assert journal.stream_positions.open(new) == 0
    assert journal.stream_positions.last(old) == 0
    assert journal.stream_positions.last(recent) == 9
    assert journal.stream_positions.open(StreamName(0, "fourth")) is None
    journal.close()


def test_streams_of_one_name_at_two_sources_are_two(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    _with_message(path, StreamName(0, "s"), 3)
    _with_message(path, StreamName(1, "s"), 5)
    journal = Journal(path, JournalLimits())
    assert [journal.stream_positions.open(StreamName(source, "s")) for source in (0, 1, 2)] == [
        3,
        5,
        0,
    ]
    journal.close()
