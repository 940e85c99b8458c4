"""The dead letters of a state directory, whether its application is running or not."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway.dead_letters.actions import DeadLetterActions, StoredDeadLetterActions
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.endpoint import Endpoint
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.settings import GatewaySettings
from wallaroo.system.lockfile import hold

_PATIENCE_S = 10.0
"""Seconds to retry while a running gateway does not respond."""


@contextlib.contextmanager
def dead_letter_actions(state_dir: Path) -> Iterator[DeadLetterActions]:
    """The actions on the dead letters in *state_dir*, through its gateway if one is running.

    Raises:
        UsageError: It is not a state directory.
        RuntimeFailure: Its gateway is running, but cannot be reached.
    """
    if not (state_dir / "outbox.db").exists():
        msg = f"{state_dir} is not a state directory: it contains no outbox.db"
        raise UsageError(msg)
    try:
        lock = hold(state_dir / "gateway.lock", "", wait_s=0.0)
    except RuntimeFailure:
        endpoint = Endpoint.read(state_dir)
        # the process that holds the lock has the port, so there is no need to verify a certificate
        yield GatewayClient(
            endpoint.location, patience_s=_PATIENCE_S, token=endpoint.token, verify=False
        )
        return
    outbox = Outbox(state_dir / "outbox.db", GatewaySettings.outbox_bytes)
    journal = Journal(state_dir / "journal.db", JournalLimits())
    try:
        actions = StoredDeadLetterActions(outbox, journal)
        actions.finish_replays()
        yield actions
    finally:
        journal.close()
        outbox.close()
        os.close(lock)
