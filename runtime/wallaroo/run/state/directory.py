"""The directory that a running application keeps everything in, and who may use it.

Holds `application.json` (whose it is, and what is fixed for its life), `journal.db` and `outbox.db`
of the gateway, and `checkpoint/` of Spark, with the state. One process at a time may use it; while
none does, it may be copied and moved.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import structlog

from wallaroo.engine.base import StateLayout
from wallaroo.engine.registry import engine
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.system.atomic_write import write_durably
from wallaroo.system.disk_space import check_room, is_full
from wallaroo.system.lockfile import hold

FORMAT = 4
"""Version of the directory's layout, of how entities are saved, and of what bucket a key has."""
_BUCKETS_PER_PARTITION = 8

log = structlog.get_logger("wallaroo")


@dataclass(frozen=True)
class Fixed:
    """What is fixed when a state directory is new."""

    application: str
    """Name of the application."""
    partitions: int
    """Partitions of the state: the upper bound of parallelism; `repartition` changes it."""
    buckets: int
    """Buckets that keys are spread over, for good."""
    format: int = FORMAT
    """Version of the directory's layout."""

    @classmethod
    def new(cls, application: str, partitions: int) -> Fixed:
        """What becomes fixed of a directory that is new."""
        return cls(application, partitions, partitions * _BUCKETS_PER_PARTITION)

    def layout(self, checkpoint: Path) -> StateLayout:
        """What an engine is told of the state in *checkpoint*."""
        return StateLayout(self.application, self.partitions, self.buckets, checkpoint)


def read_fixed(path: Path) -> Fixed:
    """What is fixed of the state directory at *path*, which another process may use.

    Raises:
        UsageError: It is none, is of another version, or has been damaged.
    """
    file = path / "application.json"
    if not file.exists():
        msg = f"{path} is no state directory of an application: there is no {file.name} in it"
        raise UsageError(msg)
    try:
        told = dict(json.loads(file.read_text()))
    except (ValueError, TypeError) as error:
        msg = f"{file} is not what was written there ({error}): bring back a copy of {path}"
        raise UsageError(msg) from error
    if told.get("format") != FORMAT:
        msg = (
            f"the state directory {path} has format {told.get('format')}, and this "
            f"version of wallaroo reads format {FORMAT}; give another --state-dir"
        )
        raise UsageError(msg)
    return Fixed(**told)


def readable_checkpoint(path: Path) -> Path:
    """The checkpoint of the state directory at *path*, to look at; another process may use it."""
    path = path.resolve()
    with contextlib.suppress(RuntimeFailure, OSError):  # it is in use, or cannot be written to
        lock = hold(path / "lock", "stop it", wait_s=0.0)
        try:
            engine().settle(path / "checkpoint")
        finally:
            os.close(lock)
    return path / "checkpoint"


class StateDirectory:
    """A state directory in use by this process.

    Args:
        path: The directory; made if it is not there.
        application: Name of the application.
        partitions: Partitions wanted, if the directory is new.
        importing: Name of the import that may be under way in it; None for none.

    Raises:
        UsageError: It belongs to another application, or is of another version, or an import into
            it has begun and not ended.
        RuntimeFailure: It cannot be used, or another process uses it.
    """

    def __init__(
        self, path: Path, application: str, partitions: int, importing: str | None = None
    ) -> None:
        self.path = path.resolve()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            remedy = "stop it, or give another --state-dir"
            self._lock_file = hold(self.path / "lock", remedy)
            check_room(self.path)
        except OSError as error:
            if is_full(error):
                raise  # told of with more words
            msg = f"the state directory {path} cannot be used: {error.strerror or error}"
            raise RuntimeFailure(msg) from error
        self.fixed = self._read_or_write(application, partitions)
        if self._import.exists() and self._import.read_text() != importing:
            msg = (
                f"an import into {self.path} has begun and not ended: call `wallaroo state import` "
                "with the same file again, which ends it"
            )
            raise UsageError(msg)
        if engine().settle(self.checkpoint):
            log.info("state directory was moved", now=str(self.path))

    def check_partitions(self, wanted: int) -> None:
        """Refuse another number of partitions than the state was made with.

        Raises:
            UsageError: It is another one.
        """
        if wanted != self.fixed.partitions:
            msg = (
                f"the state in {self.path} has {self.fixed.partitions} partitions, and {wanted} "
                "are wanted: the number is fixed when a state directory is new; go back to "
                f"{self.fixed.partitions}, or stop the application and call `wallaroo repartition` "
                f"(of a chart: set partitions={self.fixed.partitions}, or repartition=true)"
            )
            raise UsageError(msg)

    @staticmethod
    def has_state(path: Path) -> bool:
        """Whether *path* is a state directory in which an application has been."""
        return (path / "application.json").exists()

    def check_repartition(self, wanted: int) -> None:
        """Refuse a number of partitions that the state cannot be cut into.

        Raises:
            UsageError: It is more than there are buckets.
        """
        if wanted > self.fixed.buckets:
            msg = (
                f"the keys in {self.path} are spread over {self.fixed.buckets} buckets, and more "
                f"partitions than that have nothing to do: choose {self.fixed.buckets} or fewer"
            )
            raise UsageError(msg)

    def repartitioned(self, partitions: int) -> None:
        """Note that the state has *partitions* partitions from now on."""
        self.fixed = replace(self.fixed, partitions=partitions)
        self._write(self.fixed)

    def begin_import(self, name: str) -> None:
        """Let nobody use the directory but the import *name*, until `end_import`."""
        write_durably(self._import, name)

    def end_import(self) -> None:
        """Note that the import has ended."""
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
        """What an engine is told of it."""
        return self.fixed.layout(self.checkpoint)

    @property
    def is_new(self) -> bool:
        """Whether no batch has been planned in it yet."""
        return not any(file.name.isdigit() for file in self.checkpoint.glob("offsets/*"))

    def close(self) -> None:
        """Let others use it."""
        os.close(self._lock_file)

    def _read_or_write(self, application: str, partitions: int) -> Fixed:
        file = self.path / "application.json"
        if not file.exists():
            fixed = Fixed.new(application, partitions)
            self._write(fixed)
            return fixed
        fixed = read_fixed(self.path)
        if fixed.application != application:
            msg = (
                f"the state directory {self.path} belongs to the application "
                f"{fixed.application!r}, and this is {application!r}; give another --state-dir"
            )
            raise UsageError(msg)
        return fixed

    def _write(self, fixed: Fixed) -> None:
        write_durably(self.path / "application.json", json.dumps(asdict(fixed), indent=2) + "\n")
