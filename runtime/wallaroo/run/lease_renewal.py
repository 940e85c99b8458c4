"""A driver's lease on its gateway: acquired before anything else, renewed while it runs."""

from __future__ import annotations

import contextlib
import os
import threading
import time

import structlog

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.connection import CallRefused, TokenRefused
from wallaroo.gateway.internal_api.leases import LAPSE_S, RENEW_S
from wallaroo.run.settings import GatewayAccess
from wallaroo.system.credentials import AUTHORITIES_VARIABLE, TOKEN_FILE_VARIABLE, read_token

_RETRY_S = 1.0
"""Seconds between attempts while the gateway is unavailable or another driver holds the lease."""
_CALL_S = 5.0
"""Seconds that one call may take; retries are made here."""

log = structlog.get_logger("wallaroo")


def set_credentials(gateway: GatewayAccess) -> dict[str, str]:
    """Give this process the credentials for *gateway*.

    Returns:
        The environment variables that give them to another process.

    Raises:
        UsageError: There is no token in the file.
    """
    read_token(gateway.token_file)
    variables = {TOKEN_FILE_VARIABLE: str(gateway.token_file)}
    if gateway.authorities is not None:
        variables[AUTHORITIES_VARIABLE] = str(gateway.authorities)
    os.environ.update(variables)
    return variables


class LeaseRenewal:
    """Acquires a lease, renews it in a thread, and releases it.

    Args:
        location: Location of the gateway's internal API.
        holder: Name of this driver.
    """

    def __init__(self, location: str, holder: str) -> None:
        self._location = location
        self._client = GatewayClient(location, patience_s=_CALL_S)
        self._holder = holder
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self.lost: str | None = None
        """Why the lease is lost; None while it is held."""

    def acquire(self, patience_s: float) -> int:
        """The number of the lease, as soon as the gateway grants it.

        If another driver holds it, this waits until the lease of a dead driver would have lapsed.

        Raises:
            CallRefused: Another driver still holds the lease, or the token is wrong.
            RuntimeFailure: The gateway was unavailable for *patience_s* seconds.
        """
        started = time.monotonic()
        warned = False
        while True:
            waited_s = time.monotonic() - started
            try:
                lease = self._client.claim(self._holder)
            except TokenRefused:
                raise
            except CallRefused as error:
                # a dead driver renewed its lease before the first attempt for the last time
                if waited_s > LAPSE_S + 2 * RENEW_S:
                    raise
                problem: RuntimeFailure = error
            except RuntimeFailure as error:
                if waited_s > patience_s:
                    raise
                problem = error
            else:
                self._thread.start()
                return lease
            if not warned:
                warned = True
                log.warning("waiting for the gateway", at=self._location, reason=str(problem))
            time.sleep(_RETRY_S)

    def release(self) -> None:
        """Release the lease; does not wait for an unavailable gateway."""
        self._stopping.set()
        self._thread.join(_CALL_S)
        with contextlib.suppress(RuntimeFailure):
            self._client.release_claim()

    def _renew(self) -> None:
        while not self._stopping.wait(RENEW_S):
            try:
                self._client.renew_claim()
            except CallRefused as error:
                self.lost = str(error)
                return
            except RuntimeFailure:
                continue  # unavailable: calls that need the gateway retry, and report it at last
