"""Resuming without what a log, or the end of a checkpoint, had.

The request is written next to the log, and carried out when the gateway next starts: completely,
however often it is tried.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import structlog

from wallaroo.errors import ACCEPT, DamagedFile
from wallaroo.gateway.consistency.agreement import held_by
from wallaroo.gateway.journal.openings import is_known
from wallaroo.gateway.journal.stream_positions import REPLAYS
from wallaroo.gateway.store import Store
from wallaroo.system.atomic_write import write_durably
from wallaroo.system.sealed_files import sealed, unsealed
from wallaroo.wire.checkpoint_progress import CheckpointProgress
from wallaroo.wire.records import Block

_FILE = "accept.json"

log = structlog.get_logger("wallaroo.gateway")


def ask_to_accept(directory: Path, progress: CheckpointProgress) -> None:
    """Let the gateway of *directory* resume from the *progress* of a checkpoint when it starts."""
    write_durably(directory / _FILE, sealed(dataclasses.asdict(progress)))


def is_asked(directory: Path) -> bool:
    """Whether the gateway of *directory* is to resume from the progress of a checkpoint."""
    return (directory / _FILE).exists()


def accept_if_asked(directory: Path, store: Store) -> None:
    """Carry out the request in *directory*, whose *store* has just been opened.

    Raises:
        DamagedFile: The request was changed.
    """
    file = directory / _FILE
    if not file.exists():
        return
    try:
        progress = CheckpointProgress(**unsealed(file.read_text()))
    except (ValueError, TypeError) as error:
        msg = f"{file} is damaged: {error}; remove it, and start with {ACCEPT} again"
        raise DamagedFile(msg) from error
    held = held_by(store)
    departs = held.departure(progress)
    values, kept = dict[str, Any](), list[Block]()
    if departs is not None:
        reached = held.reached(progress)
        known = is_known(held.openings, progress.opening)
        strange = departs if known else held.processed
        # the messages that the checkpoint does not know get numbers after those it has
        kept = list(store.journal.read(max(strange, held.trimmed), held.end))
        values["moved"] = reached, progress.opening
        log.warning("journal accepted", resumes_at=reached, messages=held.end - strange)
    if held.is_behind(progress) or held.is_ahead(progress):
        values |= store.outbox.renewal(progress.run or "", progress.chunk, progress.end)
        replays = store.journal.stream_positions.last_of(REPLAYS)
        with store.outbox.letters.transaction() as letters:
            letters.note_replays(replays)
        log.warning("outbox accepted", after_chunk=progress.chunk)
    if values:
        store.resume(values, kept)
    file.unlink()
