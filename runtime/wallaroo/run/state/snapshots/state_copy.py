"""A copy of a state directory, which may be in use, from which a start can begin.

The copy has the checkpoint as of its last committed epoch, and of the log what it had before the
gateway knew of a later one: what a kill at that moment would have left. All files that this takes
are open before anything is copied, so that neither Spark nor the gateway can remove or reuse them.
Objects cannot be kept open: if Spark removes one that is needed, copying starts again. The
application is not held up, and whatever becomes of this process leaves nothing behind in it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import structlog

from wallaroo.engine.realtime.checkpoint import check_partitions, note_begun, place_of, progress_of
from wallaroo.engine.spark.checkpoint.damage import damaged_files
from wallaroo.engine.spark.checkpoint.epochs import last_commit, numbers_in
from wallaroo.engine.spark.checkpoint.opened import Moment, OpenFile, open_files
from wallaroo.errors import RuntimeFailure, UsageError, damaged
from wallaroo.gateway.consistency.agreement import disagreement, held_by, read_log
from wallaroo.gateway.damage import LETTERS, LOG
from wallaroo.gateway.database import check_structure, reading
from wallaroo.gateway.entries import NOTED, noted_in
from wallaroo.gateway.log.records import Record
from wallaroo.gateway.log.scan import PinnedLog
from wallaroo.gateway.marks import Mark, MarkWriter, mark_file
from wallaroo.run.state.directory import TAKEN, read_fixed
from wallaroo.run.state.snapshots.contents import Snapshot
from wallaroo.system.disk_space import free_bytes, full
from wallaroo.system.object_store import ObjectPath, is_stored
from wallaroo.system.private_files import DIRECTORY_MODE

_OWN = {"lock", "gateway.lock", "endpoint.json", "owner", "savable", TAKEN}
"""Files that are of no use in a copy."""
_TRIES = 20
"""Attempts to open all files of one epoch before the next one ends, and to copy all objects."""
_LOGS = "offsets", "commits"
"""Folders with a file for each epoch."""
_UNCHANGING = {".changelog", ".zip", ".sst"}
"""Ends of the names of files that Spark does not use again for others."""
_TELL_EVERY_S = 5.0
_PIECE_BYTES = 16 * 1024**2

log = structlog.get_logger("wallaroo")


class StateCopy:
    """The copying of one state directory, which may be in use.

    Args:
        source: The directory, or the place of the state on an object store.
        journal: The directory of its gateway, which may be the same.
        partial: The copy, an empty directory.
    """

    def __init__(self, source: Path, journal: Path, partial: Path) -> None:
        self._source, self._journal, self._partial = source, journal, partial
        self._bytes = self._due = 0
        self._tell_at = time.monotonic() + _TELL_EVERY_S

    def take(self) -> Snapshot:
        """Make the copy, and check it.

        Raises:
            DamagedFile: A file of the original is not as it was written; the message names it.
            RuntimeFailure: The original cannot be copied, or a start would refuse it.
            OSError: The copy cannot be written.
        """
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        mark = next(filter(None, (self._copy_large_files() for _ in range(_TRIES))), None)
        if mark is None:
            msg = f"Spark removed files of {self._source} {_TRIES} times while they were copied"
            raise RuntimeFailure(msg)
        for directory in dict.fromkeys((self._source, self._journal)):
            for file in directory.iterdir():
                if self._is_small_file(file):
                    (self._partial / file.name).write_bytes(file.read_bytes())
        log.info("copied", mib=self._bytes >> 20, next="it is checked")
        try:
            return self._check(*mark)
        except (UsageError, RuntimeFailure) as error:  # so it is with the original
            msg = str(error)
            for part in (LOG, LETTERS):
                msg = msg.replace(str(self._partial / part), str(self._journal / part))
            msg = msg.replace(str(self._partial), str(self._source))
            raise RuntimeFailure(msg) from error

    def _copy_large_files(self) -> tuple[bytes, int] | None:
        """Copy dead letters, checkpoint and log; returns the log's name and its last record.

        It is None if Spark removed an object meanwhile that the commit needs.
        """
        checkpoint, gone = self._partial / "checkpoint", False
        with ExitStack() as opened:
            moment, files, pinned = self._open(opened)
            self._check_room(files, pinned)
            for name, source, status in files:
                try:
                    self._copy_file(source, status, checkpoint / name)
                except FileNotFoundError:
                    if not isinstance(source, ObjectPath):
                        raise
                    gone = True  # perhaps an epoch before the last commit needed it, and no other
            if is_stored(self._source) and moment.commit is not None:
                last = moment.commit.epoch
                if not {last, max(0, last - 1)} <= self._epochs():  # as a start needs them
                    return None
                if gone and any(damaged_files(checkpoint)):
                    return None
            return self._copy_log(pinned, moment)

    def _epochs(self) -> set[int]:
        """The epochs of the copy, without those of which Spark has removed one file meanwhile."""
        checkpoint = self._partial / "checkpoint"
        offsets, commits = (set(numbers_in(checkpoint / log)) for log in _LOGS)
        for number in offsets ^ commits:
            for log in _LOGS:
                (checkpoint / log / str(number)).unlink(missing_ok=True)
        return offsets & commits

    def _is_small_file(self, file: Path) -> bool:
        databases = LETTERS, mark_file(Path(LOG)).name
        own = file.name in _OWN or file.name.startswith((".", *databases))
        is_file = not file.is_dir() if is_stored(file) else file.is_file()
        return is_file and not own and file.suffix != ".new"

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
                    if not isinstance(file.source, ObjectPath):
                        these.callback(os.close, file.source)
                    files.append(file)
                # the gateway lets go of nothing that this commit needs before there is another
                if pinned.extend() and Moment.of(checkpoint) == moment:
                    opened.push(these.pop_all())
                    return moment, files, pinned
        msg = f"an epoch ended {_TRIES} times while the files in {checkpoint} were being opened"
        raise RuntimeFailure(msg)

    def _check_room(self, files: list[OpenFile], pinned: PinnedLog) -> None:
        self._due = sum(file.status.st_size for file in files) + pinned.size
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

    def _copy_file(self, source: int | ObjectPath, status: os.stat_result, file: Path) -> None:
        """Copy a *source*, a descriptor or an object, to *file*, with its time.

        Raises:
            FileNotFoundError: The object has been removed.
        """
        if not isinstance(source, ObjectPath):
            self._copy(source, file, status.st_size)
        elif not file.exists() or file.suffix not in _UNCHANGING:
            with _made(file) as out:
                for piece in _pieces(source, status.st_size):
                    out.write(piece)
                    self._copied(len(piece))
        os.utime(file, (status.st_atime, status.st_mtime))

    def _copy(self, source: int, file: Path, length: int) -> None:
        """Copy the first bytes of a descriptor to *file*."""
        offset = 0
        with _made(file) as out:
            while length > offset and (
                sent := os.sendfile(
                    out.fileno(), source, offset, min(length - offset, _PIECE_BYTES)
                )
            ):
                offset += sent
                self._copied(sent)

    def _copied(self, count: int) -> None:
        self._bytes += count
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


@contextlib.contextmanager
def _made(file: Path) -> Iterator[BinaryIO]:
    """A file to write, which is removed if that fails."""
    file.parent.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    try:
        with file.open("wb") as out:
            yield out
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _pieces(source: ObjectPath, size: int) -> Iterator[bytes]:
    if size <= _PIECE_BYTES:
        yield source.read_bytes()  # in one request
        return
    with source.open("rb", _PIECE_BYTES) as opened:
        while piece := opened.read(_PIECE_BYTES):
            yield piece
