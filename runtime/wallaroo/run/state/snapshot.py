"""A copy of a state directory, which may be in use, from which a start can begin.

The copy has the checkpoint as of its last committed epoch, and of the log what it had before the
gateway knew of a later one: what a kill at that moment would have left. All files that this takes
are open before anything is copied, so that neither Spark nor the gateway can remove or reuse them.
The application is not held up, and whatever becomes of this process leaves nothing behind in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import structlog

from wallaroo.engine.realtime.checkpoint import check_partitions, note_begun, place_of, progress_of
from wallaroo.engine.spark.checkpoint.damage import damaged_files
from wallaroo.engine.spark.checkpoint.epochs import last_commit
from wallaroo.engine.spark.checkpoint.opened import Moment, OpenFile, open_files
from wallaroo.errors import DamagedFile, RuntimeFailure, UsageError, damaged, reason_of
from wallaroo.gateway.consistency.agreement import disagreement, held_by, read_log
from wallaroo.gateway.damage import LETTERS, LOG
from wallaroo.gateway.database import check_structure, lacks_room, reading
from wallaroo.gateway.entries import NOTED, noted_in
from wallaroo.gateway.log.records import Record
from wallaroo.gateway.log.scan import PinnedLog
from wallaroo.gateway.marks import Mark, MarkWriter, mark_file
from wallaroo.run.state.directory import UNFINISHED, read_fixed
from wallaroo.system.atomic_write import wait_until_durable
from wallaroo.system.disk_space import free_bytes, full
from wallaroo.system.lockfile import hold
from wallaroo.system.private_files import DIRECTORY_MODE

_TAKEN = "snapshot.json"
"""What a snapshot has; only directories with this file are ever removed."""
_OWN = {"lock", "gateway.lock", "endpoint.json", _TAKEN}
"""Files that are of no use in a copy."""
_PARTIAL = ".{}.partial"
"""Name of a copy that is being made."""
_TRIES = 20
"""Attempts to open all files of one epoch, before the next one ends."""
_TELL_EVERY_S = 5.0
_PIECE_BYTES = 16 * 1024**2

log = structlog.get_logger("wallaroo")


class Snapshot(NamedTuple):
    """What a snapshot has."""

    position: int
    """Offset of the first message that is yet to be processed."""
    epoch: int | None
    """The last committed epoch of its checkpoint; None if there is none."""
    covered: int
    """Offset of the first message that is not in the state of this checkpoint."""
    waiting: int
    """Messages that are yet to be processed."""
    undelivered: int
    """Outputs that are yet to be delivered."""
    bytes: int
    """Bytes of all files."""


def take_snapshot(source: Path, target: Path, journal: Path | None = None) -> Snapshot:
    """Copy the state directory *source*, which may be in use, to *target*.

    The target has its name once the copy is complete, checked and on disk.

    Args:
        source: The directory.
        target: The copy.
        journal: The directory of its gateway, with the log and the dead letters; None if it is
            *source*.

    Raises:
        UsageError: The source is not a state directory, or the target exists.
        DamagedFile: A file of the source is not as it was written; the message names it.
        RuntimeFailure: The copy cannot be written.
    """
    source, place = source.resolve(), target.absolute()
    journal = (journal or source).resolve()
    read_fixed(source)
    if not (journal / LOG).is_dir():
        msg = f"{journal} contains no {LOG}: a snapshot needs the log and the checkpoint"
        raise UsageError(msg)
    try:
        _check_target(target, source, journal)
        with _partial(place) as partial:
            taken = _Copy(source, journal, partial).take()
            names = [place.name, *(name for name in _names(partial) if name != UNFINISHED)]
            (partial / _TAKEN).write_text(json.dumps({**taken._asdict(), "names": names}))
            return taken
    except (DamagedFile, UsageError):
        raise
    except (OSError, sqlite3.Error) as error:
        reason = full(place.parent) if lacks_room(error) else reason_of(error)
        if (file := getattr(error, "filename", None)) is not None and str(file) not in reason:
            reason = f"{file}: {reason}"
        msg = f"no snapshot of {source} was made: {reason}"
        raise RuntimeFailure(msg) from error


def _check_target(target: Path, source: Path, journal: Path) -> None:
    """Refuse a *target* that cannot be one.

    Raises:
        UsageError: It cannot be one.
        OSError: It cannot be looked at.
    """
    if target.exists():
        msg = f"{target.absolute()} exists already: name a directory that does not"
        raise UsageError(msg)
    for used in (source, journal):
        if used in target.resolve().parents:
            msg = f"{target.absolute()} is in {used}: name a directory elsewhere"
            raise UsageError(msg)


def remove_oldest(target: Path, keep: int) -> Iterator[Path]:
    """Remove the oldest snapshots of the same application beside the snapshot *target*.

    Only what is as it was made, and where, is a snapshot: not a copy or a link, nor one that was
    started with, or has other files besides. Unfinished ones that nobody makes any more go, too.

    Args:
        target: The snapshot.
        keep: How many to keep, with this one; at least 1.

    Yields:
        Each one that was removed.

    Raises:
        RuntimeFailure: One cannot be removed.
    """
    application = read_fixed(target).application
    found: list[tuple[float, Path]] = []
    for other in target.absolute().parent.iterdir():
        with contextlib.suppress(OSError, ValueError, UsageError):  # something else
            if _is_untouched(other) and read_fixed(other).application == application:
                found.append(((other / _TAKEN).stat().st_mtime, other))
    for other in target.absolute().parent.glob(_PARTIAL.format("*")):
        with contextlib.suppress(RuntimeFailure, OSError):  # it is being made, or something else
            if (other / UNFINISHED).exists():
                lock = hold(other / UNFINISHED, "another command makes it", wait_s=0.0)
                shutil.rmtree(other, ignore_errors=True)
                os.close(lock)
    for _, other in sorted(found, reverse=True)[keep:]:
        try:
            (other / _TAKEN).unlink()  # what is left if this is killed, nobody takes for a snapshot
            shutil.rmtree(other)
        except OSError as error:
            msg = f"the snapshot {other} cannot be removed: {reason_of(error)}"
            raise RuntimeFailure(msg) from error
        yield other


def _is_untouched(directory: Path) -> bool:
    """Whether *directory* is a snapshot that has this name since it was made, and nothing else.

    Raises:
        OSError: It is none.
        ValueError: It is none.
    """
    if directory.is_symlink():
        return False
    names: list[str] = json.loads((directory / _TAKEN).read_text())["names"]
    return names == [directory.name, *_names(directory)]


def _names(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.iterdir() if file.name != _TAKEN)


@contextlib.contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """A directory that becomes *target* if the block succeeds, and is removed otherwise."""
    target.parent.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    partial = target.with_name(_PARTIAL.format(target.name))
    partial.mkdir(DIRECTORY_MODE, exist_ok=True)
    lock = hold(partial / UNFINISHED, "another snapshot has the same target", wait_s=0.0)
    try:
        for left in partial.iterdir():  # by a command that was killed
            if left.is_dir():
                shutil.rmtree(left)
            elif left.name != UNFINISHED:
                left.unlink()
        yield partial
        (partial / UNFINISHED).unlink()
        _sync(partial)
        partial.rename(target)
        wait_until_durable(target.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    finally:
        os.close(lock)


class _Copy:
    """The copying of one state directory.

    Args:
        source: The directory.
        journal: The directory of its gateway, which may be the same.
        partial: The copy, an empty directory.
    """

    def __init__(self, source: Path, journal: Path, partial: Path) -> None:
        self._source, self._journal, self._partial = source, journal, partial
        self._bytes = self._due = 0
        self._tell_at = time.monotonic() + _TELL_EVERY_S

    def take(self) -> Snapshot:
        """Make the copy, and check it."""
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        with ExitStack() as opened:
            moment, files, pinned = self._open(opened)
            self._check_room(files, pinned)
            for name, descriptor in files:
                self._copy(descriptor, self._partial / "checkpoint" / name)
            mark = self._copy_log(pinned, moment)
        for directory in dict.fromkeys((self._source, self._journal)):
            for file in directory.iterdir():
                if self._is_small_file(file):
                    shutil.copyfile(file, self._partial / file.name)
        log.info("copied", mib=self._bytes >> 20, next="it is checked")
        try:
            return self._check(*mark)
        except (UsageError, RuntimeFailure) as error:  # so it is with the original
            msg = str(error)
            for part in (LOG, LETTERS):
                msg = msg.replace(str(self._partial / part), str(self._journal / part))
            msg = msg.replace(str(self._partial), str(self._source))
            raise RuntimeFailure(msg) from error

    def _is_small_file(self, file: Path) -> bool:
        databases = LETTERS, mark_file(Path(LOG)).name
        own = file.name in _OWN or file.name.startswith((".", *databases))
        return file.is_file() and not own and file.suffix != ".new"

    def _copy_letters(self) -> None:
        file, copy = self._journal / LETTERS, self._partial / LETTERS
        if not file.exists():
            return
        copy.unlink(missing_ok=True)
        with reading(file) as database, contextlib.closing(sqlite3.connect(copy)) as backup:
            database.backup(backup)

    def _open(self, opened: ExitStack) -> tuple[Moment, list[OpenFile], PinnedLog]:
        """Copy the dead letters, and open all files as of one moment; *opened* closes them."""
        checkpoint = self._source / "checkpoint"
        for _ in range(_TRIES):
            with ExitStack() as these:
                # the log has those records whose letters are copied, and those whose are not
                pinned = these.enter_context(PinnedLog(self._journal / LOG))
                self._copy_letters()
                moment, files = Moment.of(checkpoint), list[OpenFile]()
                for file in open_files(checkpoint, moment):
                    these.callback(os.close, file.descriptor)
                    files.append(file)
                # the gateway lets go of nothing that this commit needs before there is another
                if pinned.extend() and Moment.of(checkpoint) == moment:
                    opened.push(these.pop_all())
                    return moment, files, pinned
        msg = f"an epoch ended {_TRIES} times while the files in {checkpoint} were being opened"
        raise RuntimeFailure(msg)

    def _check_room(self, files: list[OpenFile], pinned: PinnedLog) -> None:
        sizes = (os.fstat(file.descriptor).st_size for file in files)
        self._due = sum(sizes) + pinned.size
        if self._due > free_bytes(self._partial):
            mib = self._due / 1024**2
            msg = (
                f"no snapshot of {self._source} was made: it takes {mib:,.1f} MiB at most, and "
                f"{full(self._partial.parent)}"
            )
            raise RuntimeFailure(msg)

    def _copy_log(self, pinned: PinnedLog, moment: Moment) -> tuple[bytes, int]:
        """Copy the log; returns its name, and the number of the last record."""
        checkpoint = self._source / "checkpoint"
        chunk = place_of(self._partial / "checkpoint", moment.commit).chunk

        def is_beyond(record: Record) -> bool:
            """Whether the gateway knows then that Spark has more than the copy."""
            if record.kind != NOTED:
                return False
            run, until = noted_in(record.payload).get("forgotten", (None, 0))
            if run != moment.run or until <= chunk:
                return False
            if Moment.of(checkpoint) == moment:
                msg = (
                    f"the checkpoint {checkpoint} is older than the log: its last chunk is "
                    f"{chunk}, but the log has forgotten the changes of state up to chunk {until}; "
                    "start the application, which says what to do"
                )
                raise RuntimeFailure(msg)
            return True

        def to(descriptor: int, name: str, length: int) -> None:
            self._copy(descriptor, self._partial / LOG / name, length)

        return pinned.copy(is_beyond, to)

    def _copy(self, descriptor: int, file: Path, length: int | None = None) -> None:
        file.parent.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        status = os.fstat(descriptor)
        left, offset = status.st_size if length is None else length, 0
        with file.open("xb") as out:
            while left and (
                sent := os.sendfile(out.fileno(), descriptor, offset, min(left, _PIECE_BYTES))
            ):
                offset, left, self._bytes = offset + sent, left - sent, self._bytes + sent
                self._tell()
            os.utime(out.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))

    def _tell(self) -> None:
        if time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + _TELL_EVERY_S
            log.info("copying", mib=self._bytes >> 20, of_at_most_mib=self._due >> 20)

    def _check(self, name: bytes, last: int) -> Snapshot:
        """Check the copy as a start would, and more."""
        partial, checkpoint = self._partial, self._partial / "checkpoint"
        if (partial / LETTERS).exists():
            check_structure(partial / LETTERS)
        fixed, log_read = read_fixed(partial, is_finished=False), read_log(partial)
        held, progress = held_by(log_read), progress_of(checkpoint)
        check_partitions(fixed.layout(checkpoint, partial))
        if (problem := disagreement(checkpoint, progress, held)) is not None:
            raise UsageError(str(problem))
        commit = last_commit(checkpoint)
        if commit is not None:
            for file, reason in damaged_files(checkpoint):
                raise damaged(file, reason)
        if progress.run is not None:  # chunks after the commit may be in the log
            note_begun(checkpoint, place_of(checkpoint, commit))
        if held.openings:
            writer = MarkWriter(partial / LOG)
            writer.note(Mark(name.hex(), last, held.end, held.openings[-1].name))
            writer.close()
        queues = log_read.outbox.queues
        queues.begin()
        size = sum(file.stat().st_size for file in partial.rglob("*") if file.is_file())
        epoch = None if commit is None else commit.epoch
        waiting = held.end - held.processed
        covered = place_of(checkpoint, commit).offset
        return Snapshot(held.processed, epoch, covered, waiting, queues.count, size)


def _sync(directory: Path) -> None:
    """Wait until everything in *directory* is on disk."""
    for folder, _, names in os.walk(directory):
        for name in (*names, "."):
            wait_until_durable(Path(folder, name))
