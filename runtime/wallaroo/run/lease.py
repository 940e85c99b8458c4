"""A driver's claim on its gateway: taken before anything is touched, renewed while it lives."""

from __future__ import annotations

import contextlib
import os
import threading
import time

import structlog

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.internal_api.auth import (
    AUTHORITIES_VARIABLE,
    TOKEN_FILE_VARIABLE,
    read_token,
)
from wallaroo.gateway.internal_api.client import GatewayClient, Lease, Refused
from wallaroo.gateway.internal_api.leases import LAPSE_S, RENEW_S
from wallaroo.run.settings import GatewayAccess

_PAUSE_S = 1.0
"""Pause before the gateway is asked again, while it is away or another driver's."""
_CALL_S = 5.0
"""Patience of one call: what comes after it is decided here."""

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
    """Takes, renews and releases a claim.

    Args:
        location: Where the gateway's internal API is.
        holder: Name of this driver.
    """

    def __init__(self, location: str, holder: str) -> None:
        self._location = location
        self._client = GatewayClient(location, patience_s=_CALL_S)
        self._holder = holder
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="claim", daemon=True)
        self.lost: str | None = None
        """Why the claim is gone; None while it holds."""

    def claim(self, patience_s: float) -> Lease:
        """The claim, once the gateway is there.

        Another driver that has just died is waited for; one that lives is not.

        Raises:
            Refused: Another driver has the gateway and lives, or the token is wrong.
            RuntimeFailure: The gateway was away for *patience_s* seconds.
        """
        started = time.monotonic()
        told = False
        while True:
            waited_s = time.monotonic() - started
            try:
                claim = self._client.claim(self._holder)
            except Refused as error:
                # a dead one was last heard of before the first attempt
                if waited_s > LAPSE_S + 2 * RENEW_S:
                    raise
                problem: RuntimeFailure = error
            except RuntimeFailure as error:
                if waited_s > patience_s:
                    raise
                problem = error
            else:
                self._thread.start()
                return claim
            if not told:
                told = True
                log.warning("waiting for the gateway", at=self._location, reason=str(problem))
            time.sleep(_PAUSE_S)

    def release(self) -> None:
        """Let another driver have the gateway at once; a gateway that is away is not waited for."""
        self._ending.set()
        self._thread.join(_CALL_S)
        with contextlib.suppress(RuntimeFailure):
            self._client.release_claim()
        self._client.close()

    def _renew(self) -> None:
        while not self._ending.wait(RENEW_S):
            try:
                self._client.renew_claim()
            except Refused as error:
                self.lost = str(error)
                return
            except RuntimeFailure:
                continue  # away: whoever reads and publishes is patient, and says so in the end
