"""A driver's lease on its gateway: acquired before anything else, renewed while it runs.

A driver that is to take over from another one asks for the lease until that one hands over.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time

import structlog

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.internal_api.calls import OTHER_WIRING
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.connection import CallRefused, TokenRefused
from wallaroo.gateway.internal_api.leases import LAPSE_S, RENEW_S, Successor
from wallaroo.run.settings import GatewayAccess
from wallaroo.system.credentials import AUTHORITIES_VARIABLE, TOKEN_FILE_VARIABLE, read_token

_RETRY_S = 1.0
"""Seconds between attempts while the gateway is unavailable or another driver holds the lease."""
_READY_S = 0.1
"""Seconds between attempts of a driver that could begin at once: meanwhile, messages may wait."""
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
        wiring: That of its application, if it is to take over.
    """

    def __init__(self, location: str, holder: str, wiring: str = "") -> None:
        self._location = location
        self._client = GatewayClient(location, patience_s=_CALL_S)
        self._holder, self._wiring = holder, wiring
        self._stopping, self._granted = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._number: int | None = None
        self._is_ready = False
        self._fits: bool | None = None
        """Whether the gateway has an application of the same wiring, as last logged."""
        self.lost: str | None = None
        """Why the lease is lost; None while it is held."""
        self.successor: Successor | None = None
        """The driver that waits to take over from this one; None if there is none."""

    def acquire(self, patience_s: float) -> int:
        """The number of the lease, as soon as the gateway grants it.

        If another driver holds it, this waits until the lease of a dead driver would have lapsed.

        Raises:
            CallRefused: Another driver still holds the lease, or the token is wrong.
            RuntimeFailure: The gateway was unavailable for *patience_s* seconds.
        """
        # a dead driver renewed its lease before the first attempt for the last time
        return self._claim(patience_s, LAPSE_S + 2 * RENEW_S, ready=None)

    def acquire_or_wait(self, patience_s: float) -> int | None:
        """The number of the lease; None if another driver holds it, which is to hand over.

        Then this asks for the lease in a thread, until `granted` returns its number.

        Raises:
            CallRefused: The token is wrong.
            RuntimeFailure: The gateway was unavailable for *patience_s* seconds.
        """
        try:
            return self._claim(patience_s, 0.0, ready=False)
        except TokenRefused:
            raise
        except CallRefused as error:
            self._tell(error)
        self._thread = threading.Thread(target=self._ask, name="lease", daemon=True)
        self._thread.start()
        return None

    def be_ready(self) -> None:
        """Let the other driver hand over."""
        self._is_ready = True

    def granted(self, wait_s: float) -> int | None:
        """The number of the lease, once it is granted; None after *wait_s* seconds without it."""
        self._granted.wait(wait_s)
        return self._number

    def _claim(self, patience_s: float, held_s: float, *, ready: bool | None) -> int:
        """The number of the lease, as soon as the gateway grants it.

        Args:
            patience_s: Seconds to wait for the gateway.
            held_s: Seconds to wait for another driver.
            ready: See `GatewayClient.claim`.

        Raises:
            CallRefused: Another driver still holds the lease, or the token is wrong.
            RuntimeFailure: The gateway was unavailable for *patience_s* seconds.
        """
        started = time.monotonic()
        warned = False
        while True:
            waited_s = time.monotonic() - started
            try:
                self._number = lease = self._client.claim(
                    self._holder, ready=ready, wiring=self._wiring
                )
            except TokenRefused:
                raise
            except CallRefused as error:
                if waited_s >= held_s:
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

    def release(self, *, hands_over: bool = False, paused_since: float | None = None) -> None:
        """Release the lease, if it is held; does not wait for an unavailable gateway.

        Args:
            hands_over: Whether this driver has handed over to another one, for good.
            paused_since: Since when it was paused, if it was.
        """
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_CALL_S)
        number, self._number = self._number, None
        if number is not None:
            with contextlib.suppress(RuntimeFailure):
                self._client.release_claim(hands_over=hands_over, paused_since=paused_since)

    def _ask(self) -> None:
        """Ask for the lease until it is granted, and renew it."""
        while not self._stopping.wait(_READY_S if self._is_ready else _RETRY_S):
            try:
                self._number = self._client.claim(
                    self._holder, ready=self._is_ready, wiring=self._wiring
                )
            except CallRefused as error:
                self._tell(error)
            except RuntimeFailure:
                continue  # the gateway is being replaced
            else:
                self._granted.set()
                return self._renew()
        return None

    def _tell(self, refused: CallRefused) -> None:
        """Log why this driver waits, if that is another reason than before."""
        fits = OTHER_WIRING not in str(refused)
        if fits is self._fits:
            return
        self._fits = fits
        if fits:
            log.info("waiting to take over", at=self._location)
        else:
            log.warning("waiting to take over", at=self._location, reason=OTHER_WIRING)

    def _renew(self) -> None:
        while not self._stopping.wait(RENEW_S):
            try:
                self.successor = self._client.renew_claim()
            except CallRefused as error:
                self.lost = str(error)
                return
            except RuntimeFailure:
                continue  # unavailable: calls that need the gateway retry, and report it at last
