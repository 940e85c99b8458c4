"""Streams are remembered while they are used, and as long as there is room."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.harness import opened
from tests.helpers import PATIENCE_S
from wallaroo.errors import FrameError
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.stream_positions import Opener, StreamName
from wallaroo.gateway.journal.write_buffer import JournalLimits

HOUR_NS = 3600 * 10**9
DAY_NS = 24 * HOUR_NS
HERE, THERE, ELSEWHERE = (Opener(None, address) for address in ("here", "there", "elsewhere"))
ORDERS, PRICES = (Opener(f"commonName={name}", "here") for name in ("orders", "prices"))


@contextlib.contextmanager
def journal_in(directory: Path, streams: int = 10_000) -> Iterator[Journal]:
    with opened(directory, JournalLimits(streams=streams)) as store:
        yield store.journal


def _with_message(
    path: Path, name: StreamName, number: int, days_ago: int = 0, opener: Opener = HERE
) -> None:
    """A journal in which *name* had its message *number* so long ago."""
    now = time.time_ns
    with pytest.MonkeyPatch.context() as patch, opened(path) as store:
        patch.setattr(time, "time_ns", lambda: now() - days_ago * DAY_NS)
        store.journal.stream_positions.open(name, opener)
        store.journal.submit(name.source, 1, b"\0\0\0\1m", (name, number))
        assert store.journal.stream_positions.wait(name, number, PATIENCE_S)


def test_a_stream_unused_for_a_month_makes_room_for_another(tmp_path: Path) -> None:
    old, recent, new = (StreamName(0, name) for name in ("old", "recent", "new"))
    path = tmp_path
    _with_message(path, old, 7, days_ago=31)
    _with_message(path, recent, 9, days_ago=29)
    with journal_in(path, streams=2) as journal:
        assert journal.stream_positions.open(old, HERE) == 7  # there is room: it is remembered
        assert journal.stream_positions.open(new, THERE) == 0
        assert journal.stream_positions.last(old) == 0
        assert journal.stream_positions.last(recent) == 9


def test_when_all_are_in_use_a_new_stream_is_refused_and_known_ones_are_not(
    tmp_path: Path,
) -> None:
    path = tmp_path
    _with_message(path, StreamName(0, "one"), 7)
    _with_message(path, StreamName(0, "two"), 9, opener=THERE)
    with journal_in(path, streams=2) as journal:
        with pytest.raises(FrameError, match=r"'three' exceeds the limit: the gateway remembers 2"):
            journal.stream_positions.open(StreamName(0, "three"), ELSEWHERE)
        assert journal.stream_positions.open(StreamName(0, "one"), HERE) == 7


def test_streams_of_one_name_at_two_sources_are_two(tmp_path: Path) -> None:
    path = tmp_path
    _with_message(path, StreamName(0, "s"), 3)
    _with_message(path, StreamName(1, "s"), 5)
    with journal_in(path) as journal:
        assert [
            journal.stream_positions.open(StreamName(source, "s"), HERE) for source in (0, 1, 2)
        ] == [
            3,
            5,
            0,
        ]


def test_a_stream_belongs_to_the_subject_that_opened_it(tmp_path: Path) -> None:
    name, path = StreamName(0, "s"), tmp_path
    _with_message(path, name, 3, opener=ORDERS)
    with journal_in(path) as journal:
        with pytest.raises(FrameError, match=r"belongs to the certificate of 'commonName=orders'"):
            journal.stream_positions.open(name, PRICES)
        assert journal.stream_positions.open(name, Opener(ORDERS.subject, "elsewhere")) == 3
        assert journal.stream_positions.open(name, HERE) == 3  # certificates were turned off


def test_a_stream_from_before_certificates_belongs_to_the_first_that_opens_it(
    tmp_path: Path,
) -> None:
    name, path = StreamName(0, "s"), tmp_path
    _with_message(path, name, 3)
    _with_message(path, name, 4, opener=ORDERS)
    with (
        journal_in(path) as journal,
        pytest.raises(FrameError, match="belongs to the certificate of"),
    ):
        journal.stream_positions.open(name, PRICES)


def test_one_sender_gets_no_more_than_half_of_the_streams(tmp_path: Path) -> None:
    with journal_in(tmp_path, streams=4) as journal:
        for name in ("one", "two"):
            assert journal.stream_positions.open(StreamName(0, name), HERE) == 0
        with pytest.raises(
            FrameError, match="'three' exceeds the limit: the gateway remembers 2 of he"
        ):
            journal.stream_positions.open(StreamName(0, "three"), HERE)
        assert journal.stream_positions.open(StreamName(0, "three"), THERE) == 0
        journal.stream_positions.drop(StreamName(0, "one"))
        assert journal.stream_positions.open(StreamName(0, "three"), HERE) == 0


def test_certificates_count_apart_behind_one_address_and_as_one_from_two(tmp_path: Path) -> None:
    with journal_in(tmp_path, streams=8) as journal:
        for opener in (ORDERS, PRICES):
            for number in range(4):
                name = StreamName(0, f"{opener.subject} {number}")
                journal.stream_positions.open(name, opener)
        journal.stream_positions.drop(StreamName(0, f"{PRICES.subject} 0"))  # there is room
        with pytest.raises(FrameError, match="remembers 4 of commonName=orders"):
            journal.stream_positions.open(StreamName(0, "s"), Opener(ORDERS.subject, "elsewhere"))


def test_a_full_table_makes_room_for_a_newcomer_at_the_cost_of_who_has_the_most(
    tmp_path: Path,
) -> None:
    path = tmp_path
    names = [StreamName(0, name) for name in ("old", "open", "its", "new")]
    for name, days, opener in zip(names, (3, 4, 5, 0), (HERE, HERE, THERE, HERE), strict=True):
        _with_message(path, name, 7, days, opener)
    with journal_in(path, streams=4) as journal:
        positions = journal.stream_positions
        assert positions.open(StreamName(0, "newcomer"), ELSEWHERE, in_use=[names[1]]) == 0
        assert [positions.last(name) for name in names] == [0, 7, 7, 7]
        journal.submit(0, 1, b"\0\0\0\1m", (StreamName(0, "newcomer"), 1))
        assert positions.wait(StreamName(0, "newcomer"), 1, PATIENCE_S)
    with journal_in(path) as journal:
        assert journal.stream_positions.last(names[0]) == 0  # on disk, too


def test_to_make_room_for_a_stream_nobody_waits_for_the_disk(tmp_path: Path) -> None:
    path = tmp_path
    old, other, new = (StreamName(0, name) for name in ("old", "other", "new"))
    _with_message(path, old, 7, days_ago=31)
    _with_message(path, other, 9, opener=THERE)
    syncing, synced, sync = threading.Event(), threading.Event(), os.fdatasync

    def slowly(file: int) -> None:
        syncing.set()
        synced.wait(PATIENCE_S)
        sync(file)

    with journal_in(path, streams=2) as journal, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdatasync", slowly)
        journal.submit(0, 1, b"\0\0\0\1m", (other, 10))
        assert syncing.wait(PATIENCE_S)
        opening = threading.Thread(target=journal.stream_positions.open, args=(new, ELSEWHERE))
        opening.start()
        opening.join(PATIENCE_S)
        assert not opening.is_alive()
        assert [journal.stream_positions.last(name) for name in (old, other)] == [0, 9]
        synced.set()


def test_a_stream_that_was_forgotten_begins_anew_on_disk_at_once(tmp_path: Path) -> None:
    path, copy = tmp_path / "state", tmp_path / "copy"
    path.mkdir()
    old, other, new = (StreamName(0, name) for name in ("old", "other", "new"))
    _with_message(path, old, 7, days_ago=31)
    _with_message(path, other, 9, days_ago=31, opener=THERE)
    with journal_in(path, streams=2) as journal:
        assert journal.stream_positions.open(new, ELSEWHERE) == 0
        assert journal.stream_positions.open(old, HERE) == 0
        shutil.copytree(path, copy)  # no message has come since
    for directory in (path, copy):
        with journal_in(directory) as journal:
            assert [journal.stream_positions.last(name) for name in (old, other)] == [0, 0]
