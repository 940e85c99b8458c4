"""A damaged log: told before anything is accepted, and set aside only if asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.gateway.harness import opened, outputs, publish
from tests.gateway.log_files import flip, places, segments
from tests.helpers import PATIENCE_S
from wallaroo.cli.main import main
from wallaroo.errors import RESTORE, DamagedFile
from wallaroo.gateway.damage import LETTERS, LOG
from wallaroo.gateway.database import DamagedDatabase
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.entries import MESSAGES, NOTED, OUTPUTS, PUBLISHED
from wallaroo.gateway.log.records import HEADER, SKIPPED, SNAPSHOT, DamagedLog
from wallaroo.gateway.log.recovery import Recovery
from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.gateway.reading import published_changes
from wallaroo.wire.records import TICK_SOURCE, Block, Tally

SIZES = 2, 3, 4, 1


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Four blocks of messages, and two chunks with outputs and changes."""
    with opened(tmp_path) as store:
        for number, size in enumerate(SIZES):
            store.journal.submit(0, size, b"%d" % number * 10 * size)
            assert store.journal.flush(PATIENCE_S)
        for number in (1, 2):
            made = [outputs(b"out %d" % number, to=0), outputs(b"one %d" % number, to=1)]
            changes = [(0, b"changed %d" % number)]
            publish(store, FinishedChunk(number, number, made, Tally(), changes))
    return tmp_path


def skip(directory: Path) -> None:
    with opened(directory, skip_damaged=True):
        pass


def refused(directory: Path, *, skip_damaged: bool = False) -> str:
    """Why a store in *directory* cannot be opened."""
    with pytest.raises(DamagedFile) as told, opened(directory, skip_damaged=skip_damaged):
        pass
    return str(told.value)


def blocks(directory: Path, start: int = 0) -> list[Block]:
    with opened(directory) as store:
        return list(store.journal.read(start, store.journal.end))


def letters(directory: Path) -> Sequence[tuple[str, bytes | None]]:
    with opened(directory) as store, store.outbox.letters.transaction() as found:
        return [(one.place, one.payload) for one in found.listed(Choice(), 100)]


def test_what_was_written_is_found_intact(directory: Path) -> None:
    assert [len(block.data) for block in blocks(directory)] == [10 * size for size in SIZES]


@pytest.mark.parametrize("at", [0, 4, 8, 12, 16, 17, HEADER.size, HEADER.size + 6, -1])
@pytest.mark.parametrize("kind", [MESSAGES, OUTPUTS, PUBLISHED, SNAPSHOT])
def test_a_damaged_record_is_told_with_its_number(directory: Path, kind: int, at: int) -> None:
    place = places(directory, kind)[0]
    flip(place.file, place.at + at if at >= 0 else place.end + at)
    told = refused(directory)
    assert told.startswith(
        f"{place.file} is damaged: at byte {place.at}, record {place.record.number} is not as "
        "written"
    )
    assert RESTORE in told
    assert "--skip-damaged" in told


def test_damaged_messages_are_found_when_they_are_read(directory: Path) -> None:
    _, place, *_ = places(directory, MESSAGES)
    with opened(directory) as store:
        flip(place.file, place.end - 1)
        journal = store.journal
        reads: list[Callable[[], object]] = [
            lambda: list(journal.read(0, 10)),
            lambda: list(journal.unprocessed()),
            lambda: journal.take(2, 1 << 20),
        ]
        for read in reads:
            with pytest.raises(DamagedLog, match=f"record {place.record.number} is not as written"):
                read()


def test_damaged_messages_are_set_aside_if_asked(directory: Path) -> None:
    before = blocks(directory)
    _, second, third, _ = places(directory, MESSAGES)
    for place in (second, third):
        flip(place.file, place.end - 1)
    skip(directory)
    first, gap, last = blocks(directory)
    assert (first, last) == (before[0], before[3])
    assert (gap.first, gap.messages, gap.source, gap.data) == (2, 7, TICK_SOURCE, b"")
    numbers = second.record.number, third.record.number
    ((where, data),) = letters(directory)
    assert where == f"{second.file.name}: records {numbers[0]} to {numbers[1]}"
    assert data is not None
    for place in (second, third):
        assert place.record.payload[:-1] in data
    assert len(letters(directory)) == 1  # nothing is damaged any more


def test_damage_before_and_behind_the_other_messages_leaves_no_gap(directory: Path) -> None:
    first, *_, last = places(directory, MESSAGES)
    for place in (first, last):
        flip(place.file, place.end - 1)
    skip(directory)
    for found in (blocks(directory), blocks(directory)):
        assert [(block.first, block.messages) for block in found] == [
            (0, 2),
            (2, 3),
            (5, 4),
            (9, 1),
        ]
    with opened(directory) as store:
        assert store.journal.end == 10
        store.journal.submit(0, 1, b"new")
        assert store.journal.flush(PATIENCE_S)
    assert [block.first for block in blocks(directory, 9)] == [9, 10]


def test_all_messages_may_be_damaged(directory: Path) -> None:
    for place in places(directory, MESSAGES):
        flip(place.file, place.end - 1)
    skip(directory)
    found = blocks(directory)
    assert {(block.source, block.data) for block in found} == {(TICK_SOURCE, b"")}
    assert [block.first for block in found] + [10] == [0] + [b.end for b in found]
    lost = b"".join(data or b"" for _, data in letters(directory))
    for number, size in enumerate(SIZES):
        assert b"%d" % number * (10 * size - 1) in lost


def test_what_was_set_aside_half_is_kept_once(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = places(directory, MESSAGES)[1]
    flip(place.file, place.end - 1)

    def fail(*_values: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as patch:  # between dead letters and log
        patch.setattr(Recovery, "_rewrite", fail)
        with pytest.raises(InterruptedError):
            skip(directory)
    skip(directory)
    assert len(letters(directory)) == 1


def test_a_damaged_last_record_is_told_and_left_out_if_asked(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.journal.submit(0, 3, b"abc")
        assert store.journal.flush(PATIENCE_S)
        (place,) = places(tmp_path, MESSAGES)
        data = {file: file.read_bytes() for file in (*segments(tmp_path), tmp_path / "log-mark")}
    for file, content in data.items():  # as a kill has left it
        file.write_bytes(content[: place.end])
    flip(place.file, place.end - 1)
    number = place.record.number
    for _ in range(2):
        told = refused(tmp_path)
        assert f"at byte {place.at}, records {number} to {number + 1} are not as written" in told
    skip(tmp_path)
    ((where, lost),) = letters(tmp_path)
    assert where == f"{place.file.name}: records {number} to {number + 1}"
    assert lost is not None
    assert place.record.payload[:-1] in lost
    with opened(tmp_path) as store:
        assert (store.journal.end, store.journal.accepted) == (3, {0: 3})


@pytest.mark.parametrize("which", [0, 1, 3])
def test_what_was_set_aside_counts_as_accepted(tmp_path: Path, which: int) -> None:
    with opened(tmp_path) as store:
        for size in SIZES:
            store.journal.submit(0, size, b"x" * size)
            assert store.journal.flush(PATIENCE_S)
    place = places(tmp_path, MESSAGES)[which]
    flip(place.file, place.end - 1)
    skip(tmp_path)
    for _ in range(2):
        with opened(tmp_path) as store:
            assert store.journal.accepted == {0: sum(SIZES)}


def test_a_record_that_gave_other_numbers_is_not_left_out(directory: Path) -> None:
    with opened(directory) as store:
        values = {"moved": (20, None), **store.outbox.renewal("run", 5, 20)}
        store.resume(values, list(store.journal.read(5, 10)))
    assert [block.first for block in blocks(directory, 20)] == [20, 24]
    (place,) = (one for one in places(directory, NOTED) if b"moved" in one.record.payload)
    flip(place.file, place.end - 1)
    assert f"record {place.record.number} is not as written" in refused(directory)
    for skip_damaged in (True, False):
        told = refused(directory, skip_damaged=skip_damaged)
        assert "the record is missing that gave messages or outputs other numbers" in told


def test_a_replay_leaves_out_what_was_damaged(directory: Path) -> None:
    place = places(directory, MESSAGES)[1]
    flip(place.file, place.end - 1)
    skip(directory)
    with opened(directory) as store, store.outbox.letters.transaction() as found:
        assert found.begin_replay(Choice(), 1 << 30, 1) is None


def test_damaged_outputs_are_set_aside_if_asked(directory: Path) -> None:
    place = places(directory, OUTPUTS)[0]
    flip(place.file, place.end - 1)
    skip(directory)
    ((where, data),) = letters(directory)
    assert where == f"{place.file.name}: records {place.record.number} to {place.record.number}"
    assert data is not None
    assert b"out " in data
    for _ in range(2):
        with opened(directory) as store:
            outbox = store.outbox
            delivery = outbox.next(0, 0, 0.0)
            assert delivery is not None
            assert (delivery.number, delivery.outputs.data) == (2, b"out 2")
            other = outbox.next(1, 0, 0.0)
            assert other is not None
            assert (other.number, other.outputs.data) == (1, b"one 1")
            assert (outbox.undelivered, outbox.published_to(0)) == (3, 2)


def test_damaged_outputs_are_found_when_they_are_read(directory: Path) -> None:
    place = places(directory, OUTPUTS)[0]
    with opened(directory) as store:
        flip(place.file, place.end - 1)
        with pytest.raises(DamagedLog, match=f"record {place.record.number} is not as written"):
            store.outbox.next(0, 0, 0.0)


def test_damaged_changes_of_state_cannot_be_set_aside(directory: Path) -> None:
    place = places(directory, PUBLISHED)[0]
    flip(place.file, place.end - 1)
    assert f"record {place.record.number} is not as written" in refused(directory)
    for skip_damaged in (True, False):  # also after an attempt
        told = refused(directory, skip_damaged=skip_damaged)
        assert "the changes of state of chunks 1 to 1 are missing" in told
        assert "--skip-damaged" not in told


def test_the_changes_of_the_last_chunk_are_made_again(directory: Path) -> None:
    """Without its publication, its messages are not processed; they are still there."""
    place = places(directory, PUBLISHED)[1]
    flip(place.file, place.end - 1)
    skip(directory)
    with opened(directory) as store:
        assert store.outbox.progress()["run"].chunk == 1
        assert store.journal.backlog == 9
        assert list(store.outbox.changes("run", 0)) == [b"changed 1"]
        made = [outputs(b"out 2", to=0), outputs(b"one 2", to=1)]
        publish(store, FinishedChunk(2, 2, made, Tally(), [(0, b"changed 2")]))
    with opened(directory) as store:
        assert list(store.outbox.changes("run", 0)) == [b"changed 1", b"changed 2"]
        for sink, name in enumerate((b"out", b"one")):
            found, after = [], 0
            while (delivery := store.outbox.next(sink, after, 0.0)) is not None:
                found.append((delivery.number, delivery.outputs.data))
                after = delivery.position
            assert found == [(1, name + b" 1"), (2, name + b" 2")]


def test_what_a_lost_publication_had_delivered_is_not_sent_again(directory: Path) -> None:
    with opened(directory) as store:
        for sink in (0, 1):
            store.outbox.delivered(sink, 2)
        store.journal.submit(0, 1, b"later")
        assert store.journal.flush(PATIENCE_S)
    place = places(directory, PUBLISHED)[1]
    flip(place.file, place.end - 1)
    skip(directory)
    with opened(directory) as store:
        made = [outputs(b"out 2", to=0), outputs(b"one 2", to=1)]
        publish(store, FinishedChunk(2, 2, made, Tally(), [(0, b"changed 2")]))
        assert store.outbox.next(0, 0, 0.0) is None
        assert store.outbox.undelivered == 0
        assert (store.outbox.published_to(0), store.outbox.delivered_to(0)) == (2, 2)


def test_changes_that_spark_has_are_not_missed(directory: Path) -> None:
    with opened(directory) as store:
        store.outbox.forget("run", 2)
    place = places(directory, PUBLISHED)[0]
    flip(place.file, place.end - 1)
    skip(directory)
    with opened(directory) as store:
        found, after = [], 0
        while (delivery := store.outbox.next(0, after, 0.0)) is not None:
            found.append((delivery.number, delivery.outputs.data))
            after = delivery.position
        assert found == [(1, b"out 1"), (2, b"out 2")]
        assert store.outbox.published_to(0) == 2


def test_damaged_changes_are_found_when_they_are_read(directory: Path) -> None:
    place = places(directory, PUBLISHED)[1]
    with opened(directory) as store:
        flip(place.file, place.end - 1)
        assert list(store.outbox.changes("run", 2, 0)) == []
        for partition in (0, None):
            with pytest.raises(DamagedLog, match=f"record {place.record.number} is not as written"):
                list(store.outbox.changes("run", 0, partition))
    with pytest.raises(DamagedLog, match=f"record {place.record.number} is not as written"):
        published_changes(directory / LOG, "run", 0)


def test_a_log_whose_tables_are_lost_is_refused(directory: Path) -> None:
    for place in places(directory, SNAPSHOT):
        flip(place.file, place.end - 1)
    for skip_damaged in (True, False):
        told = refused(directory, skip_damaged=skip_damaged)
        assert str(directory / LOG) in told
    assert RESTORE in told
    assert not any(place.record.kind == SNAPSHOT for place in places(directory))
    assert any(place.record.kind == SKIPPED for place in places(directory))


@pytest.mark.parametrize("place", [0, 32 * 1024])
def test_a_malformed_database_is_named(directory: Path, place: int) -> None:
    file = directory / LETTERS
    with file.open("r+b") as opened_file:
        opened_file.seek(place)
        opened_file.write(bytes(range(256)) * 40)
    with pytest.raises(DamagedDatabase) as told, opened(directory):
        pass
    assert str(told.value).startswith(f"{file} is damaged: ")
    assert "restore it from a copy" in str(told.value)


def test_a_replay_of_what_was_damaged_is_refused(directory: Path) -> None:
    place = places(directory, MESSAGES)[1]
    flip(place.file, place.end - 1)
    skip(directory)
    command = ["dead-letters", "replay", "1", "--state-dir", str(directory)]
    result = CliRunner().invoke(main, command)
    assert "dead letter 1 was damaged on disk; it cannot be replayed" in result.output
