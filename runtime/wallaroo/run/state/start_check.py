"""The check, before a start, that journal, outbox and checkpoint belong together."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import structlog

from wallaroo.engine.realtime.checkpoint import progress_of
from wallaroo.engine.spark.checkpoint.epochs import has_epoch, last_epoch
from wallaroo.errors import RESTORE, UsageError
from wallaroo.gateway.consistency.acceptance import ask_to_accept
from wallaroo.gateway.consistency.agreement import Holdings, disagreement, read_held
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.connection import PATIENCE_S
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.state.owner import check_owner
from wallaroo.system.lockfile import hold
from wallaroo.system.printable import counted
from wallaroo.wire.checkpoint_progress import CheckpointProgress

_PAUSE_S = 0.2
"""Seconds between checks of whether a gateway has accepted a position."""

log = structlog.get_logger("wallaroo")


class Files(Protocol):
    """The journal and the outbox of an application, here or in its gateway."""

    def held(self) -> Holdings:
        """What journal and outbox hold."""

    def accept(self, progress: CheckpointProgress) -> None:
        """Let them continue from the *progress* of the checkpoint."""


def agree(state: StateDirectory, files: Files, *, accept_lost: bool = False) -> None:
    """Refuse to start if journal, outbox and checkpoint do not belong together.

    Args:
        state: The state directory with the checkpoint; its query must not be running.
        files: Journal and outbox.
        accept_lost: Whether to start even if the journal or the outbox is lost or too old, or if
            the journal still has everything that the checkpoint lacks.

    Raises:
        UsageError: They do not belong together; the message contains both positions.
        RuntimeFailure: They cannot be read.
    """
    held = files.held()  # waits for a previous gateway, which may still be writing
    progress = progress_of(state.checkpoint)
    _check_partitions(state)
    if not accept_lost:
        check_owner(state, held.log)
    problem = disagreement(state.checkpoint, progress, held)
    if problem is None:
        return
    if not (accept_lost and problem.acceptable):
        raise UsageError(str(problem))
    log.warning("lost files accepted", reason=problem.reason)
    files.accept(progress)


def _check_partitions(state: StateDirectory) -> None:
    """Refuse a checkpoint whose last epoch has another number of partitions than the state.

    Spark would look for keys in partitions where they are not.

    Raises:
        UsageError: It has.
    """
    if not has_epoch(state.checkpoint):
        return
    ours, theirs = state.fixed.partitions, last_epoch(state.checkpoint).partitions
    if ours != theirs:
        msg = (
            f"the last epoch in {state.checkpoint / 'offsets'} has {counted(theirs, 'partition')}, "
            f"and the state has {ours}: if a change of the number was interrupted, run `wallaroo "
            f"repartition --partitions {theirs}` again to finish it; otherwise the file is "
            f"damaged: {RESTORE}"
        )
        raise UsageError(msg)


class LocalFiles:
    """Journal and outbox in a directory of this machine, while no gateway is running.

    Args:
        directory: The directory.
        skip_damaged: Whether the gateway will set damage aside, and resume without it.
    """

    def __init__(self, directory: Path, *, skip_damaged: bool = False) -> None:
        self._directory, self._skips = directory, skip_damaged

    def held(self) -> Holdings:
        """See `Files.held`.

        Raises:
            RuntimeFailure: The directory is in use.
            DamagedFile: A file is malformed.
        """
        with self._alone():
            return read_held(self._directory, skips=self._skips)

    def accept(self, progress: CheckpointProgress) -> None:
        """See `Files.accept`; the gateway does it when it starts."""
        ask_to_accept(self._directory, progress)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        lock = hold(self._directory / "gateway.lock", "is there another gateway?")
        try:
            yield
        finally:
            os.close(lock)


class GatewayFiles:
    """Journal and outbox of a gateway whose lease this driver holds.

    Args:
        location: Location of its internal API.
        fencing_token: Number of the lease.
        patience_s: Seconds to retry while it does not respond.
    """

    def __init__(self, location: str, fencing_token: int, patience_s: float = PATIENCE_S) -> None:
        self._location, self._fencing_token, self._patience_s = location, fencing_token, patience_s

    def held(self) -> Holdings:
        """See `Files.held`."""
        return self._client().held()

    def accept(self, progress: CheckpointProgress) -> None:
        """See `Files.accept`; the gateway restarts to do it."""
        client = self._client()
        before = client.held().openings
        client.accept_lost(progress)
        while client.held().openings[-1:] == before[-1:]:
            time.sleep(_PAUSE_S)

    def _client(self) -> GatewayClient:
        return GatewayClient(self._location, claim=self._fencing_token, patience_s=self._patience_s)
