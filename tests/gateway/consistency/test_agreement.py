"""Which checkpoints and logs belong together, and what an accepted loss leaves."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.gateway.harness import U32, finished, opened, outputs
from tests.gateway.harness import publish as publish_chunks
from tests.gateway.log_files import segments
from tests.helpers import PATIENCE_S
from wallaroo.errors import DamagedFile
from wallaroo.gateway import writer
from wallaroo.gateway.consistency.acceptance import accept_if_asked, ask_to_accept
from wallaroo.gateway.consistency.agreement import disagreement, held_by, read_held
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.dead_letters.evidence import Evidence
from wallaroo.gateway.dead_letters.letters import Letter
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.journal.stream_positions import REPLAYS, StreamName
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.marks import remove_mark
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
    with opened(directory) as store:
        journal = store.journal
        for payload in payloads:
            journal.submit(0, 1, U32.frame(payload))
        assert journal.flush(PATIENCE_S)
        journal.consume(consumed)
        store.writer.flush()
        assert read_held(directory).trimmed >= consumed
    return journal.opening


def publish(directory: Path, chunks: range, *, deliver: bool = False, forgotten: int = 0) -> str:
    """Let the outbox in *directory* publish *chunks* of a message, an output and a change each.

    Returns:
        The opening under which it does.
    """
    with opened(directory) as store:
        for chunk in chunks:
            publish_chunks(store, finished(chunk, outputs(b"%d" % chunk), change=b"change"))
            if deliver:
                store.outbox.delivered(0, store.outbox.last_positions[0])
        store.outbox.forget("run", forgotten)
    return store.journal.opening


def problem(directory: Path, progress: CheckpointProgress) -> str:
    return str(disagreement(CHECKPOINT, progress, read_held(directory)) or "")


def content(directory: Path, start: int) -> list[tuple[int, int, bytes]]:
    """The blocks from *start* on: number, messages, payload."""
    with opened(directory) as store:
        return [
            (block.first, block.messages, block.data[4:])
            for block in store.journal.read(start, store.journal.end)
        ]


def accept(directory: Path, progress: CheckpointProgress) -> None:
    """Let a gateway start that resumes from *progress*."""
    ask_to_accept(directory, progress)
    remove_mark(directory / LOG)
    with opened(directory) as store:
        accept_if_asked(directory, store)


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
    assert "the log has none of them" in problem(copy, progress)
    known = progress_of(0, 4, read_held(copy).openings[0].name)
    assert "the log has only those before 2" in problem(copy, known)


def test_a_log_without_its_newest_segments_and_its_mark_is_refused_beside_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "Log", functools.partial(Log, segment_bytes=2000))
    directory = tmp_path / "whole"
    for payload in (b"0", b"1", b"2"):
        take(directory, payload * 20_000)
    opening = publish(directory, range(1, 4))
    progress = progress_of(3, 3, opening)
    assert not problem(directory, progress)
    files = segments(directory)
    assert len(files) > 3
    needed = [number for number, file in enumerate(files, 1) if b'"query"' in file.read_bytes()]
    for left in range(max(needed)):  # one after the last publication may have nothing of it
        cut = tmp_path / f"{left}"
        shutil.copytree(directory, cut)
        for file in segments(cut)[left:]:
            file.unlink()
        with pytest.raises(DamagedFile, match="are missing"), opened(cut):
            pass
        remove_mark(cut / LOG)
        assert "the log is lost or older than the checkpoint" in problem(cut, progress)


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
    with opened(directory) as store:
        assert (store.journal.consumed, store.journal.backlog) == (4, 3)


def test_a_new_journal_goes_on_behind_the_checkpoint(tmp_path: Path) -> None:
    progress = progress_of(0, 9, "gone")
    take(tmp_path, b"x", b"y")
    accept(tmp_path, progress)
    assert not problem(tmp_path, progress)
    assert content(tmp_path, 9) == [(9, 1, b"x"), (10, 1, b"y")]


def test_a_changed_request_to_resume_is_not_carried_out(tmp_path: Path) -> None:
    take(tmp_path, b"a")
    ask_to_accept(tmp_path, progress_of(4, 9, "x"))
    file = tmp_path / "accept.json"
    file.write_text(file.read_text().replace("9", "8"))
    with (
        opened(tmp_path) as store,
        pytest.raises(DamagedFile, match=r"accept\.json is damaged: its contents do not match"),
    ):
        accept_if_asked(tmp_path, store)
    assert content(tmp_path, 0) == [(0, 1, b"a")]


def test_the_outbox_of_another_checkpoint_is_refused(tmp_path: Path) -> None:
    opening = take(tmp_path, b"0")
    publish(tmp_path, range(1, 2))
    progress = progress_of(0, 1, opening, "another")
    assert "is not the one that the log belongs to" in problem(tmp_path, progress)


def test_an_older_outbox_that_is_accepted_numbers_anew_what_it_has(tmp_path: Path) -> None:
    opening = take(tmp_path, b"0", b"1", b"2", b"3")
    publish(tmp_path, range(1, 3), deliver=True)
    publish(tmp_path, range(3, 4))
    progress = progress_of(4, 4, opening)
    assert "published only up to chunk 3" in problem(tmp_path, progress)
    with opened(tmp_path) as store:
        identity = store.outbox.identity
        letter = Letter(0, "in", FAILED, Evidence(0, 4, U32.frame(b"bad")))
        with store.outbox.letters.transaction() as kept:
            for number in (1, 2):
                kept.take("another log", number, [letter])
                replay = kept.begin_replay(Choice(), 1 << 20, kept.last())
                assert replay is not None
                assert kept.end_replay(replay) == 1
        store.journal.submit(0, 1, U32.frame(b"again"), (StreamName(0, REPLAYS), 7))
    accept(tmp_path, progress)
    assert not problem(tmp_path, progress)
    for _ in range(2):
        with opened(tmp_path) as store:
            outbox = store.outbox
            assert outbox.identity != identity
            waiting = outbox.next(0, 0, 0.0)
            assert waiting is not None
            assert (waiting.number, waiting.outputs.data) == (1, b"3")
            assert (outbox.published_to(0), outbox.delivered_to(0)) == (1, 0)
            with outbox.letters.transaction() as kept:
                assert kept.totals["replays"] == 7


def test_a_checkpoint_whose_messages_are_deleted_has_no_option(tmp_path: Path) -> None:
    opening = take(tmp_path, b"0", b"1", b"2", b"3", consumed=3)
    publish(tmp_path, range(1, 5), forgotten=3)
    found = disagreement(CHECKPOINT, progress_of(2, 2, opening), read_held(tmp_path))
    assert found is not None
    assert not found.acceptable
    assert "messages 2 to 2 would be missing from the state" in str(found)
    assert "restore the log and the checkpoint from copies made at the same time" in str(found)


def changes_after(directory: Path, chunk: int) -> list[bytes]:
    with opened(directory) as store:
        return list(store.outbox.changes("run", chunk))


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
    assert "its last chunk is 2, but the log has published chunks up to 5" in told
    assert "neither has all changes of state from chunk 3 on" in told
    accept(tmp_path, older)  # the journal still has the messages
    assert not problem(tmp_path, older)
    assert not changes_after(tmp_path, 2)
    assert read_held(tmp_path).ends == {"run": 2}


def test_messages_go_on_behind_what_was_published_though_some_were_lost(tmp_path: Path) -> None:
    """As where damaged messages at the end were skipped."""
    opening = take(tmp_path, *[b"x"] * 4)
    publish(tmp_path, range(1, 6), forgotten=3)
    progress = progress_of(3, 3, opening)
    take(tmp_path, b"new")
    assert not problem(tmp_path, progress)
    assert content(tmp_path, 5) == [(5, 1, b"new")]
    assert len(changes_after(tmp_path, 3)) == 2


def test_a_new_outbox_goes_on_behind_the_chunks_of_the_checkpoint(tmp_path: Path) -> None:
    opening = take(tmp_path, *[b"x"] * 6, consumed=3)
    progress = progress_of(3, 3, opening)
    assert "the chunks up to 3, but the log has no published chunk" in problem(tmp_path, progress)
    accept(tmp_path, progress)
    assert not problem(tmp_path, progress)
    assert read_held(tmp_path).published == {"run": 3}


def test_a_log_that_is_written_meanwhile_has_all_that_is_published() -> None:
    """A driver that is to take over asks while messages stream."""

    class Streaming:
        """Accepts a message, and publishes it, whenever somebody looks."""

        accepted = consumed = processed = chunk = 0
        openings: tuple[()] = ()
        identity = "log"
        chunks = SimpleNamespace(forgotten={})

        @property
        def end(self) -> int:
            self.accepted += 1
            return self.accepted

        def progress(self) -> dict[str, Streaming]:
            return {"run": self}

    stream = Streaming()
    store: Any = SimpleNamespace(journal=stream, outbox=stream)
    held = held_by(store)
    assert held.ends["run"] <= held.end
    assert held.processed <= held.end
