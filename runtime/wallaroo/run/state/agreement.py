"""The look, before a start, whether journal, outbox and checkpoint belong together."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import structlog

from wallaroo.engine.gateway_api import CheckpointProgress
from wallaroo.engine.registry import engine
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway.consistency.acceptance import ask_to_accept
from wallaroo.gateway.consistency.agreement import Holdings, disagreement, read_held
from wallaroo.gateway.internal_api.client import ControlClient
from wallaroo.gateway.internal_api.connection import PATIENCE_S
from wallaroo.run.state.directory import StateDirectory
from wallaroo.system.lockfile import hold

_PAUSE_S = 0.2
"""Pause before it is looked again whether a gateway has accepted a position."""

log = structlog.get_logger("wallaroo")


class Files(Protocol):
    """The journal and the outbox of an application, wherever they are."""

    def held(self) -> Holdings:
        """What they hold."""

    def accept(self, progress: CheckpointProgress) -> None:
        """Let them resume from the *progress* of the checkpoint."""


def agree(state: StateDirectory, files: Files, *, accept_lost: bool = False) -> None:
    """Refuse a start whose journal, outbox and checkpoint do not belong together.

    Args:
        state: Where the checkpoint is; its query does not run.
        files: Journal and outbox.
        accept_lost: Whether to go on where it is journal or outbox that lacks something, or where
            the journal has all that the checkpoint lacks.

    Raises:
        UsageError: They do not belong together; the message has the positions of both sides.
        RuntimeFailure: They cannot be read.
    """
    held = files.held()  # waits for the end of a gateway of before, which may write yet
    progress = engine().progress(state.checkpoint)
    problem = disagreement(state.checkpoint, progress, held)
    if problem is None:
        return
    if not (accept_lost and problem.acceptable):
        raise UsageError(str(problem))
    log.warning("lost files accepted", reason=problem.reason)
    files.accept(progress)


class LocalFiles:
    """Journal and outbox in a directory of this machine, while no gateway runs.

    Args:
        directory: The directory.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def held(self) -> Holdings:
        """See `Files.held`.

        Raises:
            RuntimeFailure: A file is damaged, or another process has them.
        """
        with self._alone():
            try:
                return read_held(self._directory)
            except sqlite3.DatabaseError as error:
                msg = (
                    f"journal.db or outbox.db in {self._directory} cannot be read: {error}; "
                    "restore the state directory from a copy"
                )
                raise RuntimeFailure(msg) from error

    def accept(self, progress: CheckpointProgress) -> None:
        """See `Files.accept`: done when the gateway starts."""
        ask_to_accept(self._directory, progress)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        lock = hold(self._directory / "gateway.lock", "is there another gateway?")
        try:
            yield
        finally:
            os.close(lock)


class GatewayFiles:
    """Journal and outbox of a gateway that this driver has claimed.

    Args:
        location: Where its internal API is.
        claim: Number of the claim.
        patience_s: Seconds to go on trying while it does not answer.
    """

    def __init__(self, location: str, claim: int, patience_s: float = PATIENCE_S) -> None:
        self._location, self._claim, self._patience_s = location, claim, patience_s

    def held(self) -> Holdings:
        """See `Files.held`."""
        with self._client() as client:
            return client.held()

    def accept(self, progress: CheckpointProgress) -> None:
        """See `Files.accept`: the gateway starts again for that."""
        with self._client() as client:
            before = client.held().openings
            client.accept_lost(progress)
            while client.held().openings[-1:] == before[-1:]:
                time.sleep(_PAUSE_S)

    def _client(self) -> contextlib.closing[ControlClient]:
        made = ControlClient(self._location, claim=self._claim, patience_s=self._patience_s)
        return contextlib.closing(made)
