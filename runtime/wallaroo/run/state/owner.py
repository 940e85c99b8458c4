"""The log that state on an object store belongs to: only the run with that log may use it.

A directory is locked. On a store, the first run leaves an object with the name of its log, and all
that come with another log are refused. The log itself is locked, or leased, by one process.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wallaroo.engine.realtime.java import claimed
from wallaroo.engine.spark.errors import cause_of
from wallaroo.errors import ACCEPT, RuntimeFailure, UsageError, damaged
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.run.state.directory import StateDirectory
from wallaroo.system.object_store import is_stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILE = "owner"


def check_owner(state: StateDirectory, log: str) -> None:
    """Refuse the *state* if it belongs to another log than the one called *log*.

    Raises:
        UsageError: It does.
    """
    file = state.path / _FILE
    if is_stored(state.path) and file.exists():
        _check(state, log, file.read_text())


class Claim:
    """Lets state on a store belong to the log of a gateway, before each start of the query.

    Args:
        state: The state; one in a directory is locked already.
        location: Location of the gateway's internal API.
        lease: Number of the lease on it.
        place: Where the log is, for messages.
        replaces: Whether the state may belong to another log at the first start.
    """

    def __init__(
        self, state: StateDirectory, location: str, lease: int, place: str, *, replaces: bool
    ) -> None:
        self._state, self._place = state, place
        self._gateway = GatewayClient(location, claim=lease)
        self._replaces = replaces

    def __call__(self, session: SparkSession) -> None:
        """Claim the state, with the *session* that lets the store decide between several.

        Raises:
            UsageError: It belongs to another log, or the store writes what exists already.
            RuntimeFailure: The store cannot be reached.
        """
        state = self._state
        if not is_stored(state.path):
            return
        log = self._gateway.held().log
        text = json.dumps({"log": log, "at": self._place})
        try:
            found = claimed(session, str(state.path / _FILE), text, replaces=self._replaces)
        except Exception as error:
            msg = f"the state in {state.path} cannot be claimed: {cause_of(str(error))}"
            kind = UsageError if "If-None-Match" in msg else RuntimeFailure
            raise kind(msg) from error
        self._replaces = False  # a later takeover by another run is respected
        _check(state, log, found)


def _check(state: StateDirectory, log: str, owner: str) -> None:
    try:
        values = json.loads(owner)
        theirs, at = values["log"], values["at"]
    except (ValueError, TypeError, LookupError) as error:
        raise damaged(state.path / _FILE, error) from error
    if theirs != log:
        msg = (
            f"the state in {state.path} belongs to the log of {at}, which may be in use: stop that "
            "run, and start with its log; if that is lost and nothing runs with it, start with "
            f"{ACCEPT}; otherwise choose another --state-dir"
        )
        raise UsageError(msg)
