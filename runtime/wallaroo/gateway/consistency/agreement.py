"""The comparison of log and checkpoint, and remedies where they disagree.

Each is on disk by itself, and may be lost or put back from a copy by itself. At any moment of a
run, whatever is killed, the log has all messages that the state in the checkpoint lacks, has
published each chunk that the checkpoint has, and has what the chunks after those changed. Whatever
else is found comes of files that are lost, or are copies made at different times: resuming would
skip messages, or process them twice on the same state.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from wallaroo.errors import ACCEPT, RESTORE
from wallaroo.gateway.damage import LOG, check_contents
from wallaroo.gateway.journal.openings import Opening, departure, is_known
from wallaroo.gateway.log.recovery import rehearsed
from wallaroo.gateway.reading import Reading
from wallaroo.gateway.store import Store
from wallaroo.wire.checkpoint_progress import CheckpointProgress


@dataclass(frozen=True)
class Holdings:
    """What a log holds."""

    trimmed: int = 0
    """Offset before which all messages are deleted."""
    processed: int = 0
    """Offset before which all is published."""
    end: int = 0
    """Offset after its last message."""
    openings: list[Opening] = field(default_factory=list)
    """When it was opened to be written."""
    published: dict[str, int] = field(default_factory=dict)
    """Number of the last published chunk, by run."""
    ends: dict[str, int] = field(default_factory=dict)
    """Offset after the last published chunk, by run."""
    forgotten: dict[str, int] = field(default_factory=dict)
    """Number of the last chunk whose changes are forgotten, by run."""
    log: str = ""
    """Name of the log."""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """From plain JSON values."""
        return cls(**{**value, "openings": [Opening(*one) for one in value["openings"]]})

    def departure(self, progress: CheckpointProgress) -> int | None:
        """Offset of the first message that differs from the one that *progress* counts there.

        None if the log has all messages of the chunks that the checkpoint has, and of those
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
        """Whether the log lacks chunks that the checkpoint has."""
        return self.published.get(progress.run or "", 0) < progress.chunk

    def is_ahead(self, progress: CheckpointProgress) -> bool:
        """Whether the log has forgotten changes of chunks that the checkpoint does not have."""
        return self.forgotten.get(progress.run or "", 0) > progress.chunk


def read_held(directory: Path, *, skips: bool = False) -> Holdings:
    """What a gateway will find in the log in *directory*, which nobody has open.

    Args:
        directory: The gateway's directory; a log that is missing holds nothing.
        skips: Whether the gateway will set damage aside.

    Raises:
        DamagedLog: The gateway will refuse the log.
    """
    return held_by(read_log(directory, skips=skips))


def read_log(directory: Path, *, skips: bool = False) -> Reading:
    """The log that a gateway will find in *directory*; see `read_held`."""
    file = directory / LOG
    reading = Reading(file, records=rehearsed(file, skips=skips))
    check_contents(file, reading.contents, reading.outbox)
    return reading


def held_by(store: Store | Reading) -> Holdings:
    """What the log of a *store* holds.

    It may be written meanwhile: what follows from something else is read before that.
    """
    journal, outbox = store.journal, store.outbox
    trimmed, forgotten = journal.consumed, dict(outbox.chunks.forgotten)
    published = {run: (one.chunk, one.end) for run, one in outbox.progress().items()}
    end = journal.end
    return Holdings(
        trimmed,
        min(journal.processed, end),
        end,
        journal.openings,
        {run: chunk for run, (chunk, _) in published.items()},
        {run: after for run, (_, after) in published.items()},
        forgotten,
        outbox.identity,
    )


@dataclass(frozen=True)
class Disagreement:
    """Why a checkpoint and a log do not belong together."""

    reason: str
    """A sentence with the positions of both sides."""
    remedy: str
    """What to do."""
    acceptable: bool = False
    """Whether the application can resume without what is missing."""

    def __str__(self) -> str:
        return f"{self.reason}. {self.remedy}"


_FRESH = "start with an empty state directory (on a cluster: with two empty volumes)"


def disagreement(
    checkpoint: Path, progress: CheckpointProgress, held: Holdings
) -> Disagreement | None:
    """Why *progress* of *checkpoint* and what is *held* do not belong together; None if they do."""
    return _lost_checkpoint(checkpoint, progress, held) or _lost_files(checkpoint, progress, held)


def _lost_checkpoint(
    checkpoint: Path, progress: CheckpointProgress, held: Holdings
) -> Disagreement | None:
    """What is wrong if the checkpoint has less than the log."""
    reached = held.reached(progress)
    last = held.published.get(progress.run or "")
    others = [chunk for run, chunk in held.published.items() if run != progress.run]
    remedy = f"Restore the checkpoint that belongs to the log, or {RESTORE}"
    if progress.run is None and (held.trimmed or others):
        did = []
        if held.trimmed:
            did.append(f"has deleted messages before {held.trimmed} as processed")
        if others:
            did.append(f"has published chunks up to {max(others)}")
        reason = (
            f"the checkpoint {checkpoint} has no epoch (it is new, or was lost), but "
            f"the log {' and '.join(did)}: state would restart empty in mid-stream"
        )
        return Disagreement(reason, f"{remedy}, or {_FRESH}")
    if held.trimmed > reached:
        reason = (
            f"the checkpoint {checkpoint} is older than the log: the state has the messages "
            f"before {reached}, but the log has deleted those before {held.trimmed} as "
            f"processed: messages {reached} to {held.trimmed - 1} would be missing from the state"
        )
        return Disagreement(reason, remedy)
    if held.is_ahead(progress):
        reason = (
            f"the checkpoint {checkpoint} is older than the log: its last chunk is "
            f"{progress.chunk}, but the log has published chunks up to {last}: neither has all "
            f"changes of state from chunk {progress.chunk + 1} on"
        )
        remedy += (
            f", or start with {ACCEPT}: what the log has from message {reached} on "
            "is processed again, so that outputs of it come a second time, and numbered sinks "
            "start a new numbering"
        )
        return Disagreement(reason, remedy, acceptable=True)
    if last is None and others:
        reason = (
            f"the checkpoint {checkpoint} is not the one that the log belongs to: its last "
            f"chunk is {progress.chunk}, but the log has published chunks of another "
            f"checkpoint, up to {max(others)}"
        )
        return Disagreement(reason, remedy)
    return None


def _lost_files(
    checkpoint: Path, progress: CheckpointProgress, held: Holdings
) -> Disagreement | None:
    """What is wrong if the log has less than the checkpoint."""
    reached = held.reached(progress)
    departs = held.departure(progress)
    if departs is not None:
        knows = is_known(held.openings, progress.opening) and departs
        which = f"has only those before {departs}" if knows else "has none of them"
        reason = (
            f"the log is lost or older than the checkpoint: the state in {checkpoint} has the "
            f"messages before {reached}, but the log {which}: new messages "
            f"numbered below {reached} would be skipped as already processed"
        )
        remedy = (
            "Restore the log that belongs to this checkpoint, or start with "
            f"{ACCEPT}: messages that only the lost log had are gone, and new messages "
            f"are numbered from {reached} on"
        )
        return Disagreement(reason, remedy, acceptable=True)
    if held.is_behind(progress):
        last = held.published.get(progress.run or "")
        which = f"published only up to chunk {last}" if last else "no published chunk"
        reason = (
            f"the log is lost or older than the checkpoint: the state in {checkpoint} has the "
            f"chunks up to {progress.chunk}, but the log has {which}: outputs that it had not "
            "delivered are missing"
        )
        remedy = (
            "Restore the log that belongs to this checkpoint, or start with "
            f"{ACCEPT}: outputs that only the lost log had are gone, and numbered sinks "
            "start a new numbering"
        )
        return Disagreement(reason, remedy, acceptable=True)
    return None
