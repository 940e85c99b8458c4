"""The dead letters of a state directory, whether its application is running or not."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.dead_letters.actions import DeadLetterActions, StoredDeadLetterActions
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.location import Endpoint
from wallaroo.gateway.store import Store
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
    if not (state_dir / LOG).exists():
        msg = f"{state_dir} is not a state directory: it contains no {LOG}"
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
    try:
        store = Store(state_dir, sources=None, sinks=None)
        try:
            actions = StoredDeadLetterActions(store.outbox, store.journal)
            actions.finish_replays()
            yield actions
        finally:
            store.close()
    finally:
        os.close(lock)
