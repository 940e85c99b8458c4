"""Which checkpoints, journals and outboxes belong together, and what an accepted loss leaves."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.gateway.harness import U32, finished, outputs
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.errors import DamagedFile
from wallaroo.gateway.consistency.acceptance import accept_if_asked, ask_to_accept
from wallaroo.gateway.consistency.agreement import disagreement, read_held
from wallaroo.gateway.database import claim
from wallaroo.gateway.dead_letters.evidence import Evidence
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.stream_positions import REPLAYS, StreamName
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.wire.checkpoint_progress import CheckpointProgress
from wallaroo.wire.records import FailedMessage

CHECKPOINT = Path("/state/checkpoint")
FAILED = FailedMessage("in", "decoder", "f.py:1", "ValueError: no", "'m'")


def progress_of(chunk: int, end: int, opening: str | None, run: str = "run") -> CheckpointProgress:
    """How far a checkpoint is."""
    return CheckpointProgress(run, chunk, end, opening)


def take(directory: Path, *payloads: bytes, consumed: int = 0) -> str:
    """Let the journal in *directory* accept messages; under which opening it does."""
    directory.mkdir(exist_ok=True)
    claim(directory / "journal.db", "app")
    journal = Journal(directory / "journal.db", JournalLimits())
    for payload in payloads:
        journal.submit(0, 1, U32.frame(payload))
    assert journal.flush(PATIENCE_S)
    journal.note_processed(consumed)
    journal.consume(consumed)
    wait_until(lambda: read_held(directory).trimmed >= consumed, "the deletion", PATIENCE_S)
    journal.close()
    return journal.opening


def publish(directory: Path, chunks: range, *, deliver: bool = False, forgotten: int = 0) -> None:
    """Let the outbox in *directory* publish *chunks* of a message, an output and a change each."""
    claim(directory / "outbox.db", "app")
    outbox = Outbox(directory / "outbox.db", 1 << 20)
    for chunk in chunks:
        outbox.publish("run", [finished(chunk, outputs(b"%d" % chunk), change=b"change")])
        if deliver:
            outbox.delivered(0, outbox.last_positions[0])
    with outbox.chunks() as table:
        table.forget("run", forgotten)
    outbox.close()


def problem(directory: Path, progress: CheckpointProgress) -> str:
    return str(disagreement(CHECKPOINT, progress, read_held(directory)) or "")


def content(directory: Path, start: int) -> list[tuple[int, int, bytes]]:
    """The chunks from *start* on: number, messages, payload."""
    journal = Journal(directory / "journal.db", JournalLimits())
    found = [
        (chunk.first, chunk.messages, chunk.data[4:])
        for block in journal.read(start, journal.end)
        for chunk in block
    ]
    journal.close()
    return found


def accept(directory: Path, progress: CheckpointProgress) -> None:
    ask_to_accept(directory, progress)
    claim(directory / "journal.db", "app")
    claim(directory / "outbox.db", "app")
    accept_if_asked(directory)


def test_a_copy_that_has_gone_its_own_way_is_recognised_however_much_it_has(tmp_path: Path) -> None:
    directory, copy = tmp_path / "first", tmp_path / "copy"
    take(directory, b"0", b"1")
    shutil.copytree(directory, copy)
    opening = take(directory, b"2", b"3")
    take(directory, b"4")
    progress = progress_of(0, 4, opening)
    assert not problem(directory, progress)
    take(copy, b"x", b"y", b"z", b"!")
    assert read_held(copy).end == 6
    assert "journal.db has none of them" in problem(copy, progress)
    known = progress_of(0, 4, read_held(copy).openings[0].name)
    assert "journal.db has only those before 2" in problem(copy, known)


def test_what_a_copy_has_accepted_since_is_numbered_after_what_was_processed(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "first"
    opening = take(directory, b"0", b"1")
    take(directory, b"x", b"y", b"z")
    progress = progress_of(0, 4, opening)
    for _ in range(2):  # a second time changes nothing
        accept(directory, progress)
        assert not problem(directory, progress)
        assert content(directory, 4) == [(4, 1, b"x"), (5, 1, b"y"), (6, 1, b"z")]
    journal = Journal(directory / "journal.db", JournalLimits())
    assert (journal.consumed, journal.backlog) == (4, 3)
    journal.close()


def test_a_new_journal_goes_on_behind_the_checkpoint(tmp_path: Path) -> None:
    progress = progress_of(0, 9, "gone")
    take(tmp_path, b"x", b"y")
    accept(tmp_path, progress)
    assert not problem(tmp_path, progress)
    assert content(tmp_path, 9) == [(9, 1, b"x"), (10, 1, b"y")]


def test_files_of_a_version_that_noted_no_openings_go_on(tmp_path: Path) -> None:
    take(tmp_path, b"0", b"1", b"2", consumed=1)
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.db")) as journal:
        journal.execute("DROP TABLE opening")
    progress = progress_of(0, 3, None)
    assert not problem(tmp_path, progress)
    take(tmp_path, b"3")
    assert not problem(tmp_path, progress)
    assert "has the messages before 7, but journal.db has only those before 3" in problem(
        tmp_path, dataclasses.replace(progress, end=7)
    )


def test_a_changed_request_to_resume_is_not_carried_out(tmp_path: Path) -> None:
    take(tmp_path, b"a")
    ask_to_accept(tmp_path, progress_of(4, 9, "x"))
    file = tmp_path / "accept.json"
    file.write_text(file.read_text().replace("9", "8"))
    with pytest.raises(DamagedFile, match=r"accept\.json is damaged: its contents do not match"):
        accept_if_asked(tmp_path)
    assert content(tmp_path, 0) == [(0, 1, b"a")]


def test_the_outbox_of_another_checkpoint_is_refused(tmp_path: Path) -> None:
    opening = take(tmp_path, b"0")
    publish(tmp_path, range(1, 2))
    progress = progress_of(0, 1, opening, "another")
    assert "is not the one that outbox.db belongs to" in problem(tmp_path, progress)


def test_an_older_outbox_that_is_accepted_numbers_anew_what_it_has(tmp_path: Path) -> None:
    opening = take(tmp_path, b"0", b"1", b"2", b"3")
    publish(tmp_path, range(1, 3), deliver=True)
    publish(tmp_path, range(3, 4))
    progress = progress_of(4, 4, opening)
    assert "published only up to chunk 3" in problem(tmp_path, progress)
    before = Outbox(tmp_path / "outbox.db", 1 << 20)
    identity, letters = before.identity, before.dead_letters
    with letters() as kept:
        for _ in range(2):
            kept.keep([(0, "in", FAILED, Evidence(0, 4, U32.frame(b"bad")))])
            replay = kept.begin_replay(Choice(), 1 << 20, kept.last())
            assert replay is not None
            assert kept.end_replay(replay) == 1
    before.close()
    journal = Journal(tmp_path / "journal.db", JournalLimits())
    journal.submit(0, 1, U32.frame(b"again"), (StreamName(0, REPLAYS), 7))
    journal.close()
    accept(tmp_path, progress)
    assert not problem(tmp_path, progress)
    outbox = Outbox(tmp_path / "outbox.db", 1 << 20)
    assert outbox.identity != identity
    waiting = outbox.next(0, 0, 0.0)
    assert waiting is not None
    assert (waiting.number, waiting.outputs.data) == (1, b"3")
    assert (outbox.published_to(0), outbox.delivered_to(0)) == (1, 0)
    with outbox.dead_letters() as kept:
        assert kept.totals["replays"] == 7  # so that no later one is taken for one that arrived
    outbox.close()


def test_a_checkpoint_whose_messages_are_deleted_has_no_option(tmp_path: Path) -> None:
    opening = take(tmp_path, b"0", b"1", b"2", b"3", consumed=3)
    publish(tmp_path, range(1, 5), forgotten=3)
    found = disagreement(CHECKPOINT, progress_of(2, 2, opening), read_held(tmp_path))
    assert found is not None
    assert not found.acceptable
    assert "messages 2 to 2 would be missing from the state" in str(found)
    assert "restore journal.db, outbox.db and the checkpoint from copies made at the same" in str(
        found
    )


def changes_after(directory: Path, chunk: int) -> list[bytes]:
    outbox = Outbox(directory / "outbox.db", 1 << 20)
    with outbox.chunks() as table:
        found = table.all_changes("run", chunk)
    outbox.close()
    return found


def test_what_was_published_after_the_checkpoint_continues_it(tmp_path: Path) -> None:
    opening = take(tmp_path, *[b"x"] * 6, consumed=3)
    publish(tmp_path, range(1, 6), forgotten=3)
    assert not problem(tmp_path, progress_of(3, 3, opening))
    assert not problem(tmp_path, progress_of(4, 4, opening))  # committed, and not forgotten yet


def test_a_checkpoint_that_lacks_forgotten_changes_is_refused(tmp_path: Path) -> None:
    opening = take(tmp_path, *[b"x"] * 6, consumed=1)
    publish(tmp_path, range(1, 6), forgotten=3)
    older = progress_of(2, 2, opening)
    told = problem(tmp_path, older)
    assert "its last chunk is 2, but outbox.db has published chunks up to 5" in told
    assert "neither has all changes of state from chunk 3 on" in told
    accept(tmp_path, older)  # the journal still has the messages
    assert not problem(tmp_path, older)
    assert not changes_after(tmp_path, 2)
    assert read_held(tmp_path).ends == {"run": 2}


def test_a_journal_that_is_older_than_what_was_published_goes_on_behind_it(tmp_path: Path) -> None:
    opening = take(tmp_path, *[b"x"] * 4)
    publish(tmp_path, range(1, 6), forgotten=3)
    progress = progress_of(3, 3, opening)
    assert "has the messages before 5, but journal.db has only those before 4" in problem(
        tmp_path, progress
    )
    accept(tmp_path, progress)
    take(tmp_path, b"new")
    assert not problem(tmp_path, progress)
    assert content(tmp_path, 5) == [(5, 1, b"new")]
    assert len(changes_after(tmp_path, 3)) == 2


def test_a_new_outbox_goes_on_behind_the_chunks_of_the_checkpoint(tmp_path: Path) -> None:
    opening = take(tmp_path, *[b"x"] * 6, consumed=3)
    progress = progress_of(3, 3, opening)
    assert "the chunks up to 3, but outbox.db has no published chunk" in problem(tmp_path, progress)
    accept(tmp_path, progress)
    assert not problem(tmp_path, progress)
    assert read_held(tmp_path).published == {"run": 3}
