"""The comparison of journal, outbox and checkpoint, and remedies where they disagree.

Each is on disk by itself, and may be lost or put back from a copy by itself. At any moment of a
run, whatever is killed, the journal has all messages that the state in the checkpoint lacks, and
the outbox has published each chunk that the checkpoint has, and has what the chunks after those
changed. Whatever else is found comes of files that are lost, or are copies made at different times:
resuming would skip messages, or process them twice on the same state.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from wallaroo.gateway.database import reading
from wallaroo.gateway.journal.openings import Opening, departure, is_known, read_openings
from wallaroo.wire.checkpoint_progress import CheckpointProgress

JOURNAL, OUTBOX = "journal.db", "outbox.db"
ACCEPT = "--accept-lost-journal"
"""Option that lets an application resume without what a journal or an outbox had, or with repeated
outputs."""


@dataclass(frozen=True)
class Holdings:
    """What a journal and an outbox hold."""

    trimmed: int = 0
    """Offset before which the journal has deleted all messages."""
    processed: int = 0
    """Offset before which all is published."""
    end: int = 0
    """Offset after its last message."""
    openings: list[Opening] = field(default_factory=list)
    """When it was opened."""
    published: dict[str, int] = field(default_factory=dict)
    """Number of the last chunk that the outbox has published, by run."""
    ends: dict[str, int] = field(default_factory=dict)
    """Offset after the last published chunk, by run."""
    forgotten: dict[str, int] = field(default_factory=dict)
    """Number of the last chunk whose changes the outbox has no more, by run."""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """From plain JSON values."""
        return cls(**{**value, "openings": [Opening(*one) for one in value["openings"]]})

    def departure(self, progress: CheckpointProgress) -> int | None:
        """Offset of the first message that differs from the one that *progress* counts there.

        None if the journal has all messages of the chunks that the checkpoint has, and of those
        that were published after them.
        """
        departs = departure(self.openings, self.end, progress.end, progress.opening)
        if departs is None and self.reached(progress) > self.end:
            return self.end
        return departs

    def reached(self, progress: CheckpointProgress) -> int:
        """Offset before which the state has all messages: no new one may come there.

        The state is that of the checkpoint, and of the chunks after it.
        """
        if self.is_behind(progress) or self.is_ahead(progress):
            return progress.end
        return max(progress.end, self.ends.get(progress.run or "", 0))

    def is_behind(self, progress: CheckpointProgress) -> bool:
        """Whether the outbox lacks chunks that the checkpoint has."""
        return self.published.get(progress.run or "", 0) < progress.chunk

    def is_ahead(self, progress: CheckpointProgress) -> bool:
        """Whether the outbox has forgotten changes of chunks that the checkpoint does not have."""
        return self.forgotten.get(progress.run or "", 0) > progress.chunk


def read_held(directory: Path) -> Holdings:
    """What the journal and the outbox in *directory* hold; files that are missing hold nothing."""
    positions, end, openings = dict[str, int](), 0, list[Opening]()
    published, ends, forgotten = dict[str, int](), dict[str, int](), dict[str, int]()
    with _existing(directory / JOURNAL) as (journal, tables):
        if journal is not None and {"chunk", "position"} <= tables:
            positions = dict(journal.execute("SELECT name, value FROM position"))
            (last,) = journal.execute("SELECT max(first + count) FROM chunk").fetchone()
            end = max(last or 0, positions.get("trimmed", 0))
        if journal is not None and "opening" in tables:
            openings = read_openings(journal)
    with _existing(directory / OUTBOX) as (outbox, tables):
        if outbox is not None and "progress" in tables:
            for run, chunk, after in outbox.execute("SELECT run, chunk, end FROM progress"):
                published[run], ends[run] = chunk, after
        if outbox is not None and "forgotten" in tables:
            forgotten = dict(outbox.execute("SELECT run, chunk FROM forgotten"))
    trimmed, processed = positions.get("trimmed", 0), positions.get("processed", 0)
    processed = min(processed, end)
    return Holdings(trimmed, processed, end, openings, published, ends, forgotten)


@contextlib.contextmanager
def _existing(file: Path) -> Iterator[tuple[sqlite3.Connection | None, set[str]]]:
    """The database in *file* and its tables; None if the file does not exist."""
    if not file.exists():
        yield None, set()
        return
    with reading(file) as database:
        yield database, {name for (name,) in database.execute("SELECT name FROM sqlite_master")}


@dataclass(frozen=True)
class Disagreement:
    """Why a checkpoint, a journal and an outbox do not belong together."""

    reason: str
    """A sentence with the positions of both sides."""
    remedy: str
    """What to do."""
    acceptable: bool = False
    """Whether the application can resume without what is missing."""

    def __str__(self) -> str:
        return f"{self.reason}. {self.remedy}"


_TOGETHER = "restore journal.db, outbox.db and the checkpoint from copies made at the same time"
_FRESH = "start with an empty state directory (on a cluster: with two empty volumes)"


def disagreement(
    checkpoint: Path, progress: CheckpointProgress, held: Holdings
) -> Disagreement | None:
    """Why *progress* of *checkpoint* and what is *held* do not belong together; None if they do."""
    return _lost_checkpoint(checkpoint, progress, held) or _lost_files(checkpoint, progress, held)


def _lost_checkpoint(
    checkpoint: Path, progress: CheckpointProgress, held: Holdings
) -> Disagreement | None:
    """What is wrong if the checkpoint has less than journal and outbox."""
    reached = held.reached(progress)
    last = held.published.get(progress.run or "")
    others = [chunk for run, chunk in held.published.items() if run != progress.run]
    remedy = f"Restore the checkpoint that belongs to them, or {_TOGETHER}"
    if progress.run is None and (held.trimmed or others):
        did = []
        if held.trimmed:
            did.append(f"journal.db has deleted messages before {held.trimmed} as processed")
        if others:
            did.append(f"outbox.db has published chunks up to {max(others)}")
        reason = (
            f"the checkpoint {checkpoint} has no epoch (it is new, or was lost), but "
            f"{' and '.join(did)}: state would restart empty in mid-stream"
        )
        return Disagreement(reason, f"{remedy}, or {_FRESH}")
    if held.trimmed > reached:
        reason = (
            f"the checkpoint {checkpoint} is older than the journal: the state has the messages "
            f"before {reached}, but journal.db has deleted those before {held.trimmed} as "
            f"processed: messages {reached} to {held.trimmed - 1} would be missing from the state"
        )
        return Disagreement(reason, remedy)
    if held.is_ahead(progress):
        reason = (
            f"the checkpoint {checkpoint} is older than the outbox: its last chunk is "
            f"{progress.chunk}, but outbox.db has published chunks up to {last}: neither has all "
            f"changes of state from chunk {progress.chunk + 1} on"
        )
        remedy += (
            f", or start with {ACCEPT}: what journal.db has from message {reached} on "
            "is processed again, so that outputs of it come a second time, and numbered sinks "
            "start a new numbering"
        )
        return Disagreement(reason, remedy, acceptable=True)
    if last is None and others:
        reason = (
            f"the checkpoint {checkpoint} is not the one that outbox.db belongs to: its last "
            f"chunk is {progress.chunk}, but outbox.db has published chunks of another "
            f"checkpoint, up to {max(others)}"
        )
        return Disagreement(reason, remedy)
    return None


def _lost_files(
    checkpoint: Path, progress: CheckpointProgress, held: Holdings
) -> Disagreement | None:
    """What is wrong if journal or outbox has less than the checkpoint."""
    reached = held.reached(progress)
    departs = held.departure(progress)
    if departs is not None:
        knows = is_known(held.openings, progress.opening) and departs
        which = f"has only those before {departs}" if knows else "has none of them"
        reason = (
            f"the journal is lost or older than the checkpoint: the state in {checkpoint} has the "
            f"messages before {reached}, but journal.db {which}: new messages "
            f"numbered below {reached} would be skipped as already processed"
        )
        remedy = (
            "Restore the journal.db that belongs to this checkpoint, or start with "
            f"{ACCEPT}: messages that only the lost journal held are gone, and new messages "
            f"are numbered from {reached} on"
        )
        return Disagreement(reason, remedy, acceptable=True)
    if held.is_behind(progress):
        last = held.published.get(progress.run or "")
        which = f"published only up to chunk {last}" if last else "no published chunk"
        reason = (
            f"the outbox is lost or older than the checkpoint: the state in {checkpoint} has the "
            f"chunks up to {progress.chunk}, but outbox.db has {which}: outputs that it had not "
            "delivered are missing"
        )
        remedy = (
            "Restore the outbox.db that belongs to this checkpoint, or start with "
            f"{ACCEPT}: outputs that only the lost outbox held are gone, and numbered sinks "
            "start a new numbering"
        )
        return Disagreement(reason, remedy, acceptable=True)
    return None
