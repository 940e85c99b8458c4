"""Whether journal, outbox and checkpoint belong together, and what can be done where they do not.

Each is on disk by itself, and may be lost or put back from a copy by itself. At any moment of a
run, whatever is killed, the journal has all messages that the checkpoint's batches were planned to
take and has deleted none that a committed batch has not taken; and the outbox has published each
committed batch and none that was not planned. Whatever else is found comes of files that are lost,
or are copies made at different times: resuming would skip messages, process them twice on the same
state, or drop outputs as published before.
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
from wallaroo.wire.records import JOURNAL as JOURNAL_LOG

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
    """Offset before which a batch has published all."""
    end: int = 0
    """Offset after its last message."""
    openings: list[Opening] = field(default_factory=list)
    """When it was opened."""
    published: dict[str, int] = field(default_factory=dict)
    """Number of the last batch, or chunk, that the outbox has published, by run."""
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

        None if the journal has all messages that the checkpoint's batches were planned to take, and
        all whose chunks were published after it.
        """
        planned = progress.planned.get(JOURNAL_LOG, 0)
        departs = departure(self.openings, self.end, planned, progress.opening)
        if departs is None and self.planned(progress) > self.end:
            return self.end
        return departs

    def planned(self, progress: CheckpointProgress) -> int:
        """Offset up to which messages were planned: no new one may come before it."""
        return max(progress.planned.get(JOURNAL_LOG, 0), self._continued(progress))

    def committed(self, progress: CheckpointProgress) -> int:
        """Offset up to which the state of the checkpoint, and of chunks after it, has messages."""
        return max(progress.committed.get(JOURNAL_LOG, 0), self._continued(progress))

    def is_behind(self, progress: CheckpointProgress) -> bool:
        """Whether the outbox lacks what the checkpoint's batches have published."""
        return self.published.get(progress.run or "", -1) < progress.published

    def is_ahead(self, progress: CheckpointProgress) -> bool:
        """Whether the outbox relies on batches that the checkpoint does not have."""
        of = self.forgotten if progress.in_chunks else self.published
        return of.get(progress.run or "", -1) > progress.batch

    def _continued(self, progress: CheckpointProgress) -> int:
        """Offset after the published chunks that continue the checkpoint; 0 if none do."""
        if self.is_behind(progress) or self.is_ahead(progress):
            return 0
        return self.ends.get(progress.run or "", 0)


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
        if outbox is not None and "batch" in tables:
            published = dict(outbox.execute("SELECT run, number FROM batch"))
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
    committed = held.committed(progress)
    last = held.published.get(progress.run or "", -1)
    others = max((n for run, n in held.published.items() if run != progress.run), default=-1)
    remedy = f"Restore the checkpoint that belongs to them, or {_TOGETHER}"
    if progress.batch < 0 and (held.trimmed or others >= 0):
        did = []
        if held.trimmed:
            did.append(f"journal.db has deleted messages before {held.trimmed} as processed")
        if others >= 0:
            did.append(f"outbox.db has published batches up to {others}")
        reason = (
            f"the checkpoint {checkpoint} has no batch (it is new, or was lost), but "
            f"{' and '.join(did)}: state would restart empty in mid-stream"
        )
        return Disagreement(reason, f"{remedy}, or {_FRESH}")
    if held.trimmed > committed:
        reason = (
            f"the checkpoint {checkpoint} is older than the journal: its batches are committed "
            f"up to message {committed}, but journal.db has deleted the messages before "
            f"{held.trimmed} as processed: messages {committed} to {held.trimmed - 1} "
            "would be missing from the state"
        )
        return Disagreement(reason, remedy)
    if held.is_ahead(progress):
        first = progress.batch + 1
        harm = (
            f"neither has all changes of state from batch {first} on"
            if progress.in_chunks
            else f"the outputs of new batches up to {last} would be dropped as published before"
        )
        reason = (
            f"the checkpoint {checkpoint} is older than the outbox: its last batch is "
            f"{progress.batch}, but outbox.db has published batches up to {last}: {harm}"
        )
        remedy += (
            f", or start with {ACCEPT}: what journal.db has from message {committed} on "
            "is processed again, so that outputs of it come a second time, and numbered sinks "
            "start a new numbering"
        )
        return Disagreement(reason, remedy, acceptable=True)
    if last < 0 and others >= 0:
        reason = (
            f"the checkpoint {checkpoint} is not the one that outbox.db belongs to: its last "
            f"batch is {progress.batch}, but outbox.db has published batches of another "
            f"checkpoint, up to {others}"
        )
        return Disagreement(reason, remedy)
    return None


def _lost_files(
    checkpoint: Path, progress: CheckpointProgress, held: Holdings
) -> Disagreement | None:
    """What is wrong if journal or outbox has less than the checkpoint."""
    planned = held.planned(progress)
    departs = held.departure(progress)
    if departs is not None:
        knows = is_known(held.openings, progress.opening) and departs
        which = f"has only those before {departs}" if knows else "has none of them"
        reason = (
            f"the journal is lost or older than the checkpoint: batches in {checkpoint} were "
            f"planned up to message {planned}, but journal.db {which}: new messages "
            f"numbered below {planned} would be skipped as already processed"
        )
        remedy = (
            "Restore the journal.db that belongs to this checkpoint, or start with "
            f"{ACCEPT}: messages that only the lost journal held are gone, and new messages "
            f"are numbered from {planned} on"
        )
        return Disagreement(reason, remedy, acceptable=True)
    if held.is_behind(progress):
        last = held.published.get(progress.run or "", -1)
        which = f"published only up to batch {last}" if last >= 0 else "no published batch"
        reason = (
            f"the outbox is lost or older than the checkpoint: batches in {checkpoint} are "
            f"committed up to {progress.published}, but outbox.db has {which}: outputs that it "
            "had not delivered are missing"
        )
        remedy = (
            "Restore the outbox.db that belongs to this checkpoint, or start with "
            f"{ACCEPT}: outputs that only the lost outbox held are gone, and numbered sinks "
            "start a new numbering"
        )
        return Disagreement(reason, remedy, acceptable=True)
    return None
