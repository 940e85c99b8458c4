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


def claim(
    state: StateDirectory,
    location: str,
    lease: int,
    replaces: bool,
    place: str,
    session: SparkSession,
) -> None:
    """Let the *state* belong to the log of the gateway at *location*.

    Args:
        state: The state; one in a directory is locked already.
        location: Location of the gateway's internal API.
        lease: Number of the lease on it.
        replaces: Whether it may belong to another log.
        place: Where the log is, for messages.
        session: Spark, which lets the store decide between several.

    Raises:
        UsageError: It belongs to another log.
        RuntimeFailure: The store cannot be reached, or writes what exists already.
    """
    if not is_stored(state.path):
        return
    log = GatewayClient(location, claim=lease).held().log
    text = json.dumps({"log": log, "at": place})
    try:
        found = claimed(session, str(state.path / _FILE), text, replaces=replaces)
    except Exception as error:
        msg = f"the state in {state.path} cannot be claimed: {cause_of(str(error))}"
        raise RuntimeFailure(msg) from error
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
