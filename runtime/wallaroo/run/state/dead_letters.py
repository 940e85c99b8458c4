"""What is in a state directory, whether its application runs or not."""

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


@contextlib.contextmanager
def letter_desk(state_dir: Path) -> Iterator[DeadLetterActions]:
    """The desk for the dead letters in *state_dir*: the running gateway's, or one made here.

    Raises:
        UsageError: It is no state directory.
        RuntimeFailure: Its gateway runs, and cannot be reached.
    """
    if not (state_dir / "outbox.db").exists():
        msg = f"{state_dir} is no state directory of an application: there is no outbox.db in it"
        raise UsageError(msg)
    try:
        lock = hold(state_dir / "gateway.lock", "", wait_s=0.0)
    except RuntimeFailure:
        door = Endpoint.read(state_dir)
        # who holds the lock has the port: a certificate would tell nothing more
        client = GatewayClient(
            door.location, patience_s=_PATIENCE_S, token=door.token, verify=False
        )
        with contextlib.closing(client):
            yield client
        return
    outbox = Outbox(state_dir / "outbox.db", GatewaySettings.outbox_bytes)
    journal = Journal(state_dir / "journal.db", JournalLimits())
    try:
        desk = StoredDeadLetterActions(outbox, journal)
        desk.finish_replays()
        yield desk
    finally:
        journal.close()
        outbox.close()
        os.close(lock)
