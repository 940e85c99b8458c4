"""A reader for the checkpoint of a real-time query that does not need Spark.

Spark notes the position of an epoch when the epoch ends, just before it commits the state. A
position without a commit is that of an epoch whose end was cut off: it counts for nothing, and
Spark drops it when the query is started again.
"""

from __future__ import annotations

from pathlib import Path

from wallaroo.engine.spark.checkpoint.epochs import has_epoch, last_commit, last_epoch, run_of
from wallaroo.engine.spark.checkpoint.files import check_files
from wallaroo.engine.stored import Commit, StateLayout
from wallaroo.errors import RuntimeFailure, UsageError, damaged
from wallaroo.system.atomic_write import write_durably
from wallaroo.system.printable import counted
from wallaroo.system.sealed_files import sealed, unsealed
from wallaroo.wire.checkpoint_progress import CheckpointProgress
from wallaroo.wire.chunk_messages import CheckpointPosition

_MARK, _CHUNK = "begun", "chunk"
"""File with the number of the last chunk that Spark had when a later one was begun, and the name of
the number there."""


def place_of(checkpoint: Path, commit: Commit | None) -> CheckpointPosition:
    """How far the state of *commit* is.

    Raises:
        UsageError: The file that says so is damaged.
    """
    if commit is None:
        return CheckpointPosition()
    file = checkpoint / "offsets" / str(commit.epoch)
    try:
        return CheckpointPosition.from_json(file.read_text().splitlines()[-1])
    except (OSError, ValueError, TypeError, IndexError) as error:
        msg = f"{file} is corrupt ({error}); restore the state directory from a backup"
        raise UsageError(msg) from error


def progress_of(checkpoint: Path) -> CheckpointProgress:
    """How far the application whose state is in *checkpoint* is; it must not run.

    Raises:
        UsageError: A file cannot be read.
    """
    check_files(checkpoint)
    if not (checkpoint / "metadata").exists():
        return CheckpointProgress()
    place = place_of(checkpoint, last_commit(checkpoint))
    return CheckpointProgress(run_of(checkpoint), place.chunk, place.offset, place.opening)


def is_new(checkpoint: Path) -> bool:
    """Whether no application has begun to change the state in *checkpoint*."""
    return not (has_epoch(checkpoint) or has_begun(checkpoint, CheckpointPosition()))


def is_imported(checkpoint: Path, name: str) -> bool:
    """Whether the last committed epoch was the import *name*."""
    return place_of(checkpoint, last_commit(checkpoint)).imported == name


def note_begun(checkpoint: Path, place: CheckpointPosition) -> None:
    """Note, durably, that a chunk after *place* is about to run.

    What it changes is published before Spark has it; so `has_begun` holds until Spark commits an
    epoch that ends after *place*, or `note_ended` is called.
    """
    if _begun(checkpoint) != place.chunk:
        write_durably(checkpoint / _MARK, sealed({_CHUNK: place.chunk}))


def note_ended(checkpoint: Path) -> None:
    """Note that nothing is published after the end of the last committed epoch."""
    (checkpoint / _MARK).unlink(missing_ok=True)


def has_begun(checkpoint: Path, place: CheckpointPosition) -> bool:
    """Whether chunks after *place*, the end of the last committed epoch, may be published."""
    begun = _begun(checkpoint)
    return begun is not None and begun >= place.chunk


def _begun(checkpoint: Path) -> int | None:
    """The number in the mark of *checkpoint*; None without a mark.

    Raises:
        DamagedFile: It was changed.
    """
    file = checkpoint / _MARK
    try:
        return int(unsealed(file.read_text())[_CHUNK])
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, LookupError) as error:
        raise damaged(file, error) from error


def published_after(layout: StateLayout) -> tuple[Commit | None, list[bytes]]:
    """The last commit, and the records of what was published after it, in order.

    The query may be running: what Spark commits meanwhile, the gateway forgets.

    Raises:
        RuntimeFailure: The outbox with what was published is not at hand.
        UsageError: The checkpoint is damaged.
    """
    while True:
        commit = last_commit(layout.checkpoint)
        records = _records(layout, place_of(layout.checkpoint, commit))
        if last_commit(layout.checkpoint) == commit:
            if records is None:
                raise RuntimeFailure(outstanding(layout.checkpoint))
            return commit, records


def check_that_spark_has_all(layout: StateLayout) -> None:
    """Refuse a state of which Spark does not have all that is published.

    Raises:
        RuntimeFailure: It is such a state.
    """
    if published_after(layout)[1]:
        raise RuntimeFailure(outstanding(layout.checkpoint))


def check_partitions(layout: StateLayout) -> None:
    """Refuse a state whose division into other partitions was interrupted.

    Raises:
        RuntimeFailure: It is such a state.
    """
    if not has_epoch(layout.checkpoint):
        return
    partitions = last_epoch(layout.checkpoint).partitions
    if partitions != layout.partitions:
        msg = (
            f"a change of the state in {layout.checkpoint} from {layout.partitions} to "
            f"{counted(partitions, 'partition')} was interrupted: run `wallaroo repartition "
            f"--partitions {partitions}` again to finish it"
        )
        raise RuntimeFailure(msg)


def outstanding(checkpoint: Path) -> str:
    """The message that Spark does not have all that is published."""
    return (
        "the application was not stopped cleanly: its last changes of state are published, and "
        f"not in {checkpoint} yet; start it once more, stop it cleanly, and repeat the command"
    )


def _records(layout: StateLayout, place: CheckpointPosition) -> list[bytes] | None:
    """What was published after *place*; None if that cannot be known."""
    if not has_begun(layout.checkpoint, place):
        return []
    if layout.published is None:
        return None
    return layout.published(run_of(layout.checkpoint), place.chunk)
