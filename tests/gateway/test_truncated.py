"""Journals and outboxes that were cut, emptied or mixed up: told, or exact, and never less."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.gateway.harness import outputs
from tests.helpers import PATIENCE_S
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.consistency.acceptance import ask_to_accept
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.marks import MarkWriter
from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.startup import take
from wallaroo.wire.checkpoint_progress import CheckpointProgress
from wallaroo.wire.records import TICK_SOURCE, Tally

NAME, SOURCES, RUN = "Votes", ["lines"], "run"
PAGE = 32 * 1024
WRITTEN, MORE = 6, 4
"""Chunks before the files were closed once, and after they were opened again."""


class Content(NamedTuple):
    """All that must not be lost, or changed."""

    messages: list[tuple[int, int, int, bytes]]
    """The chunks of the journal: first message, messages, source, bytes."""
    outputs: list[tuple[int, bytes]]
    """What is to be delivered: number and bytes."""
    changes: list[bytes]
    """Changes of state."""


def fill(directory: Path, tag: bytes, copy: Path) -> None:
    """Write to journal and outbox in *directory*, and leave a copy as of a kill."""
    numbers = iter(range(100))
    for number_of in (WRITTEN, MORE):
        os.close(take(directory, NAME, SOURCES))
        journal = Journal(directory / "journal.db", JournalLimits())
        outbox = Outbox(directory / "outbox.db", 1 << 30)
        for number in itertools.islice(numbers, number_of):
            text = b"%s message %d " % (tag, number)
            journal.submit(0, 2, text * 2_000)
            assert journal.flush(PATIENCE_S)
            made = [outputs(b"%s output %d " % (tag, number) * 1_500, to=0)]
            changes = [(0, b"%s change %d " % (tag, number) * 1_000)]
            chunk = FinishedChunk(number + 1, 2 * number + 2, made, Tally(), changes)
            outbox.publish(RUN, [chunk])
        if number_of == MORE:
            shutil.copytree(directory, copy)
        journal.close()
        outbox.close()


def content(directory: Path) -> Content:
    """What a gateway finds that opens *directory*."""
    journal = Journal(directory / "journal.db", JournalLimits())
    outbox = Outbox(directory / "outbox.db", 1 << 30)
    try:
        chunks = [chunk for block in journal.read(0, journal.end) for chunk in block]
        delivered, after = [], 0
        while (found := outbox.next(0, after, 0.0)) is not None:
            delivered.append((found.number, found.outputs.data))
            after = found.position
        with outbox.chunks() as table:
            changes = list(table.changes(RUN, 0, 0))
        rows = [(one.first, one.messages, one.source, bytes(one.data)) for one in chunks]
        return Content(rows, delivered, changes)
    finally:
        journal.close()
        outbox.close()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a gateway that was killed, and beside it, `other`, that of another one."""
    made = tmp_path_factory.mktemp("killed")
    fill(made / "one", b"one", made / "killed")
    fill(made / "another", b"another", made / "other")
    return made / "killed"


@pytest.fixture(scope="module")
def intact(killed: Path, tmp_path_factory: pytest.TempPathFactory) -> Content:
    """What is in `killed`."""
    copy = tmp_path_factory.mktemp("intact") / "copy"
    shutil.copytree(killed, copy)
    os.close(take(copy, NAME, SOURCES))
    found = content(copy)
    assert len(found.messages) == len(found.outputs) == len(found.changes) == WRITTEN + MORE
    return found


names = itertools.count()


def damaged(killed: Path, file: str, damage: str, place: float) -> Path:
    """A copy of *killed* in which *file* is damaged."""
    copy = killed.with_name(f"damaged-{next(names)}")
    shutil.copytree(killed, copy)
    path = copy / file
    data = bytearray(path.read_bytes())
    at = int(place * len(data))
    if damage == "cut":
        path.write_bytes(data[:at])
    elif damage == "cut at a page":
        path.write_bytes(data[: at // PAGE * PAGE])
    elif damage == "cut at a frame":  # of the write-ahead log
        path.write_bytes(data[: 32 + at // (PAGE + 24) * (PAGE + 24)])
    elif damage == "zeros":
        start = at // PAGE * PAGE
        data[start : start + PAGE] = bytes(len(data[start : start + PAGE]))
        path.write_bytes(data)
    elif damage == "removed":
        path.unlink()
    elif damage == "of another":
        shutil.copy(killed.with_name("other") / file, path)
    return copy


FILES = [f"{name}.db{suffix}" for name in ("journal", "outbox") for suffix in ("", "-wal", "-shm")]
MARKS = ["journal.db-mark", "outbox.db-mark"]
DAMAGES = ["cut", "cut at a page", "cut at a frame", "zeros", "removed", "of another"]


def check(killed: Path, intact: Content, file: str, damage: str, place: float) -> str:
    """Start on a damaged directory: what was told; empty if nothing is lost."""
    copy = damaged(killed, file, damage, place)
    try:
        os.close(take(copy, NAME, SOURCES))
    except RuntimeFailure as error:
        told = str(error)
        base = file.removesuffix("-wal").removesuffix("-shm").removesuffix("-mark")
        assert str(copy / base) in told, told
        assert "estore" in told or "--state-dir" in told, told
        skipped(copy, intact)
        return told
    else:
        assert content(copy) == intact
        return ""
    finally:
        shutil.rmtree(copy)


def skipped(copy: Path, intact: Content) -> None:
    """With `--skip-damaged` there is what is intact, under its numbers, or the file is named."""
    told = ""
    try:
        os.close(take(copy, NAME, SOURCES, skip_damaged=True))
    except RuntimeFailure as error:
        told = str(error)
    if told:
        assert str(copy) in told
        return
    found = content(copy)
    assert {one for one in found.messages if one[2] != TICK_SOURCE} <= set(intact.messages)
    assert set(found.outputs) <= set(intact.outputs)
    assert found.changes == intact.changes[: len(found.changes)]
    os.close(take(copy, NAME, SOURCES))  # nothing is missing any more


@settings(max_examples=60, deadline=None)
@given(file=st.sampled_from(FILES), damage=st.sampled_from(DAMAGES), place=st.floats(0, 0.999))
def test_a_damaged_file_is_told_or_nothing_is_lost(
    killed: Path, intact: Content, file: str, damage: str, place: float
) -> None:
    check(killed, intact, file, damage, place)


@pytest.mark.parametrize("name", ["journal.db", "outbox.db"])
def test_what_sqlite_takes_for_an_intact_file_is_told(
    killed: Path, intact: Content, name: str
) -> None:
    for part in range(MORE + 1):  # one more or one less transaction
        assert check(killed, intact, f"{name}-wal", "cut at a frame", part / (MORE + 1))
    for damage in ("removed", "cut"):
        assert check(killed, intact, f"{name}-wal", damage, 0.0)
        assert check(killed, intact, name, damage, 0.0)


@pytest.mark.parametrize("damage", ["cut", "zeros", "removed"])
@pytest.mark.parametrize("file", MARKS)
def test_a_mark_that_is_gone_is_not_missed(
    killed: Path, intact: Content, file: str, damage: str
) -> None:
    assert check(killed, intact, file, damage, 0.5) == ""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("journal.db", r"messages 0 to 2, which were accepted, are missing"),
        ("outbox.db", "outputs that were published last are missing"),
    ],
)
def test_a_file_of_another_run_that_has_more_is_told(killed: Path, name: str, told: str) -> None:
    copy = killed.with_name(f"another-{next(names)}")
    shutil.copytree(killed, copy)
    writer = MarkWriter(copy / name)
    writer.note("f" * 32, 3)
    writer.close()
    with pytest.raises(RuntimeFailure, match=rf"{name} is damaged: {told}"):
        take(copy, NAME, SOURCES)


def test_missing_messages_are_named_and_skipped_if_asked(killed: Path, intact: Content) -> None:
    copy = damaged(killed, "journal.db-wal", "removed", 0)
    first, end = 2 * WRITTEN, 2 * (WRITTEN + MORE)
    with pytest.raises(RuntimeFailure) as told:
        take(copy, NAME, SOURCES)
    assert str(told.value).startswith(
        f"{copy / 'journal.db'} is damaged: messages {first} to {end - 1}, which were accepted, "
        "are missing; was journal.db-wal cut or removed, or journal.db replaced by an older copy?"
    )
    assert "from one backup, remove journal.db-mark; or start with --skip-damaged" in str(
        told.value
    )
    os.close(take(copy, NAME, SOURCES, skip_damaged=True))
    assert content(copy).messages == [
        *intact.messages[:WRITTEN],
        (first, end - first, TICK_SOURCE, b""),
    ]
    outbox = Outbox(copy / "outbox.db", 1 << 30)
    with outbox.dead_letters() as store:
        (letter,) = store.listed(Choice(), 10)
    outbox.close()
    assert letter.place == f"journal.db: messages {first} to {end - 1}"


def test_a_tail_that_was_never_accepted_is_not_missed(killed: Path, intact: Content) -> None:
    copy = killed.with_name(f"torn-{next(names)}")
    shutil.copytree(killed, copy)
    for file in ("journal.db-wal", "outbox.db-wal"):
        with (copy / file).open("ab") as log:
            log.write(os.urandom(PAGE // 2))
    os.close(take(copy, NAME, SOURCES))
    assert content(copy) == intact


@pytest.mark.parametrize("name", ["journal.db", "outbox.db"])
@pytest.mark.parametrize(("size", "is_told"), [(22, True), (0, False)])
def test_a_damaged_mark_is_told_and_ignored_unless_nothing_was_noted(
    killed: Path, name: str, size: int, is_told: bool
) -> None:
    copy = killed.with_name(f"marked-{next(names)}")
    shutil.copytree(killed, copy)
    mark = copy / f"{name}-mark"
    mark.write_bytes(mark.read_bytes()[:size])
    with capture_logs() as logs:
        os.close(take(copy, NAME, SOURCES))
    told = [log["file"] for log in logs if log["event"] == "damaged mark ignored"]
    assert told == [str(mark)] * is_told


def test_who_accepts_the_loss_of_a_journal_is_not_told_of_it_again(killed: Path) -> None:
    copy = damaged(killed, "journal.db-wal", "removed", 0)
    ask_to_accept(copy, CheckpointProgress())
    os.close(take(copy, NAME, SOURCES))
    os.close(take(copy, NAME, SOURCES))
