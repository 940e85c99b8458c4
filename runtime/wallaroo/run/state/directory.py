"""The state directory, which holds everything that an application keeps across restarts.

It contains `application.json` (the application's name and what never changes), the gateway's
`log/` and `letters.db`, and Spark's `checkpoint/` with the state. Only one process at a time
can use it; while none does, it can be copied and moved.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import structlog

from wallaroo.engine.realtime.checkpoint import is_new
from wallaroo.engine.spark.checkpoint.relocate import relocate
from wallaroo.engine.stored import StateLayout
from wallaroo.errors import RuntimeFailure, UsageError, damaged, reason_of
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.reading import published_changes
from wallaroo.system.atomic_write import write_durably
from wallaroo.system.disk_space import check_room, is_full
from wallaroo.system.lockfile import hold
from wallaroo.system.object_store import is_stored
from wallaroo.system.printable import counted
from wallaroo.system.private_files import DIRECTORY_MODE, warn_if_open
from wallaroo.system.sealed_files import CHECKSUM, sealed, unsealed

FORMAT = 7
"""Version of the directory's layout, of saved entities, and of the buckets of keys."""
_LAST_OF_BATCHES = 5
"""The last format that the micro-batch engine had as well."""
_BUCKETS_PER_PARTITION = 8
APPLICATION = "application.json"
"""File with what is fixed."""
TAKEN = "snapshot.json"
"""File that only a snapshot has, and only once it is complete."""
UNFINISHED = "snapshot.lock"
"""File in a snapshot, or a restored one, that is being made, and locked as long as it is."""

log = structlog.get_logger("wallaroo")


@dataclass(frozen=True)
class Fixed:
    """What is fixed when a state directory is created."""

    application: str
    """Name of the application."""
    partitions: int
    """Number of partitions, the upper bound of parallelism; `repartition` changes it."""
    buckets: int
    """Number of buckets that keys are hashed into; it never changes."""
    format: int = FORMAT
    """Version of the directory's layout."""

    @classmethod
    def new(cls, application: str, partitions: int) -> Fixed:
        """The fixed values of a new directory."""
        return cls(application, partitions, partitions * _BUCKETS_PER_PARTITION)

    def check_application(self, path: Path, application: str) -> None:
        """Refuse the state in *path* for another *application*.

        Raises:
            UsageError: It belongs to another one.
        """
        if self.application != application:
            msg = (
                f"the state directory {path} belongs to the application "
                f"{self.application!r}, not to {application!r}; choose another --state-dir"
            )
            raise UsageError(msg)

    def check_partitions(self, path: Path, partitions: int) -> None:
        """Refuse a number of *partitions* other than that of the state in *path*.

        Raises:
            UsageError: The numbers differ.
        """
        if partitions != self.partitions:
            msg = (
                f"the state in {path} has {counted(self.partitions, 'partition')}, not "
                f"{partitions}: the number is fixed when a state directory is created; use "
                f"{self.partitions}, or stop the application and run `wallaroo repartition` "
                f"(in a chart: set partitions={self.partitions}, or repartition=true)"
            )
            raise UsageError(msg)

    def layout(self, checkpoint: Path, directory: Path) -> StateLayout:
        """The layout of the state in *checkpoint*, for the engine.

        Args:
            checkpoint: Spark's directory.
            directory: The directory with the log.
        """
        published = partial(published_changes, directory / LOG)
        return StateLayout(self.application, self.partitions, self.buckets, checkpoint, published)


def read_fixed(path: Path, *, is_finished: bool = True) -> Fixed:
    """The fixed values of the state directory at *path*, which may be in use.

    Args:
        path: The directory.
        is_finished: Whether to refuse a snapshot that is being made.

    Raises:
        UsageError: It is not a state directory, has another format, or is damaged.
    """
    file = path / APPLICATION
    exists = file.exists()
    if is_finished and not (exists and is_stored(path)):  # where it is the last object
        _check_finished(path)
    if not exists:
        msg = f"{path} is not a state directory: it contains no {file.name}"
        raise UsageError(msg)
    try:
        text = file.read_text()
        values = json.loads(text)
        found = values.get("format")
        if found == FORMAT or CHECKSUM in values:  # formats before 5 have no checksum
            values = unsealed(text)
        fixed = Fixed(**values) if found == FORMAT else None
    except (AttributeError, ValueError, TypeError) as error:
        msg = f"{file} is damaged ({error}): restore {path} from a copy"
        raise UsageError(msg) from error
    if fixed is None:
        has = f"has format {found}, but this version of wallaroo reads format {FORMAT}"
        if found in range(_LAST_OF_BATCHES + 1) and _is_of_batches(path / "checkpoint"):
            has = "is of the micro-batch engine, which this version of wallaroo does not have"
        msg = (
            f"the state directory {path} {has}; choose another --state-dir, into which `wallaroo "
            "state import` brings the entities that `wallaroo state export` of the version that "
            "made this one writes"
        )
        raise UsageError(msg)
    return fixed


def _check_finished(path: Path) -> None:
    """Refuse a snapshot, or a restored one, that is not complete.

    Raises:
        UsageError: *path* is one.
    """
    if (path / UNFINISHED).exists():
        msg = f"{path} is a copy that was not finished: take the snapshot, or restore it, again"
        raise UsageError(msg)


def check_place(path: Path) -> None:
    """Refuse to use a snapshot on an object store as state there: its log is in it.

    Raises:
        UsageError: *path* is one.
    """
    if is_stored(path) and (path / TAKEN).exists():
        msg = f"{path} is a snapshot: `wallaroo restore` brings it to where a run can start"
        raise UsageError(msg)


def _is_of_batches(checkpoint: Path) -> bool:
    """Whether *checkpoint* is of the micro-batch engine."""
    if not (checkpoint / "metadata").exists():
        return False
    file = checkpoint / "engine"
    return not file.exists() or file.read_text() == "micro-batch"


def readable_checkpoint(path: Path) -> Path:
    """The checkpoint of the state directory at *path*, for reading; it may be in use."""
    if is_stored(path):
        return path / "checkpoint"
    path = path.resolve()
    with contextlib.suppress(RuntimeFailure, OSError):  # it is in use or read-only
        lock = hold(path / "lock", "stop it", wait_s=0.0)
        try:
            relocate(path / "checkpoint")
        finally:
            os.close(lock)
    return path / "checkpoint"


class StateDirectory:
    """A state directory in use by this process.

    Args:
        path: The directory, which is created if necessary.
        application: Name of the application.
        partitions: Number of partitions, if the directory is new.
        importing: Name of the import that may continue in it; None to refuse unfinished imports.
        directory: The directory with the log and the lock; None for *path*.

    Raises:
        UsageError: It belongs to another application, has another format, or an import into it is
            unfinished.
        RuntimeFailure: It cannot be used, or is in use.
    """

    def __init__(
        self,
        path: Path,
        application: str,
        partitions: int,
        importing: str | None = None,
        directory: Path | None = None,
    ) -> None:
        self.path = path.resolve()
        self.directory = (directory or path).resolve()
        """The directory with the log."""
        try:
            self.directory.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
            warn_if_open(self.directory)
            remedy = "stop it, or choose another --state-dir"
            self._lock_file: int | None = hold(
                self.directory / "lock", remedy, on_wait=self._note_wait
            )
            check_room(self.directory)
        except OSError as error:
            if is_full(error):
                raise  # reported in more detail
            msg = f"the state directory {directory or path} cannot be used: {reason_of(error)}"
            raise RuntimeFailure(msg) from error
        self.fixed = self._read_or_write(application, partitions)
        if self._import.exists() and self._import.read_text() != importing:
            msg = (
                f"an import into {self.path} is unfinished: run `wallaroo state import` with the "
                "same file again to finish it"
            )
            raise UsageError(msg)
        if relocate(self.checkpoint):
            log.info("state directory was moved", now=str(self.path))

    def check_partitions(self, partitions: int) -> None:
        """See `Fixed.check_partitions`."""
        self.fixed.check_partitions(self.path, partitions)

    @staticmethod
    def has_state(path: Path) -> bool:
        """Whether *path* is a state directory that an application has used."""
        return (path / APPLICATION).exists()

    def check_repartition(self, partitions: int) -> None:
        """Refuse a number of *partitions* that the state cannot be divided into.

        Raises:
            UsageError: There are fewer buckets.
        """
        if partitions > self.fixed.buckets:
            msg = (
                f"the keys in {self.path} are hashed into {self.fixed.buckets} buckets, and more "
                f"partitions than that would be idle: choose {self.fixed.buckets} or fewer"
            )
            raise UsageError(msg)

    def repartitioned(self, partitions: int) -> None:
        """Record that the state now has *partitions* partitions."""
        self.fixed = replace(self.fixed, partitions=partitions)
        self._write(self.fixed)

    def begin_import(self, name: str) -> None:
        """Reserve the directory for the import *name*, until `end_import`."""
        write_durably(self._import, name)

    def end_import(self) -> None:
        """Record that the import is complete."""
        self._import.unlink(missing_ok=True)

    @property
    def _import(self) -> Path:
        return self.path / "import"

    @property
    def checkpoint(self) -> Path:
        """Directory of the engine's checkpoint."""
        return self.path / "checkpoint"

    @property
    def layout(self) -> StateLayout:
        """The layout of its state, for the engine."""
        return self.fixed.layout(self.checkpoint, self.directory)

    @property
    def is_new(self) -> bool:
        """Whether no application has begun to change its state."""
        return is_new(self.checkpoint)

    def close(self) -> None:
        """Release the directory; may be called again."""
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def _note_wait(self, seconds: float) -> None:
        log.info("state directory in use", directory=str(self.directory), waits_s=seconds)

    def _read_or_write(self, application: str, partitions: int) -> Fixed:
        file = self.path / APPLICATION
        if not file.exists():
            _check_finished(self.path)
            if (self.checkpoint / "metadata").exists():
                raise damaged(file, "it is missing")
            fixed = Fixed.new(application, partitions)
            self._write(fixed)
            return fixed
        if is_stored(self.path) and (self.path / TAKEN).exists():  # it has the log, too
            msg = (
                f"{self.path} is a snapshot: `wallaroo restore` brings it to where a run can start"
            )
            raise UsageError(msg)
        fixed = read_fixed(self.path)
        fixed.check_application(self.path, application)
        return fixed

    def _write(self, fixed: Fixed) -> None:
        write_durably(self.path / APPLICATION, sealed(asdict(fixed)))
