"""Who may use the internal API: callers that know the token, and one driver, which has the lease.

Token and fencing token are headers of each call. A call without a fencing token is answered, such
as a command that shows the status. A call with the fencing token of an earlier lease is rejected,
whatever it asks for: that driver was presumed dead, and another one may have taken over.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Callable
from typing import Any

from pyarrow import flight

from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.system.guesses import Guesses

_METHODS = {flight.FlightMethod.DO_ACTION, flight.FlightMethod.DO_GET}
"""Those that pass each call to `Authenticator.admit`."""
_TOKEN_HEADER, _FENCING_HEADER = "authorization", "wallaroo-fencing-token"


def location_of(address: str, *, secret: bool) -> str:
    """Location of the internal API at *address*, `HOST:PORT`.

    Example:
        >>> location_of("gateway:7900", secret=True)
        'grpc+tls://gateway:7900'
    """
    return f"grpc+tls://{address}" if secret else f"grpc://{address}"


class Authenticator(flight.ServerMiddlewareFactory):
    """Rejects calls at the gateway.

    Flight does not tell middleware who calls. So `start_call` notes what a call has shown, and
    `admit`, to which the service passes each call first, decides about it. Only for methods that
    the service does not have, `start_call` decides by itself.

    Args:
        token: The token that callers must send; None to accept all calls, on a Unix socket.
        leases: Knows which driver may use the gateway.
        guesses: Slows down addresses that show wrong tokens.
    """

    def __init__(self, token: str | None, leases: Leases, guesses: Guesses | None = None) -> None:
        super().__init__()
        self._token = None if token is None else f"Bearer {token}".encode()
        self._leases = leases
        self._guesses = guesses or Guesses()

    @property
    def asks_for_token(self) -> bool:
        """Whether callers must send a token."""
        return self._token is not None

    def start_call(self, info: Any, headers: dict[str, list[Any]]) -> _Shown:
        """Note what the call has shown, or raise what its caller will see."""
        wrong = None
        if self._token is not None:
            shown = _first(headers, _TOKEN_HEADER)
            if not hmac.compare_digest(shown.encode(), self._token):
                wrong = (
                    "the token is not this gateway's"
                    if shown
                    else "authentication required: no token was sent"
                )
                if info.method not in _METHODS:
                    raise flight.FlightUnauthenticatedError(wrong)
        return _Shown(wrong, _first(headers, _FENCING_HEADER))

    def admit(self, shown: _Shown, peer: str, action: str) -> None:
        """Accept a call, or raise what its caller will see.

        Args:
            shown: What `start_call` has noted.
            peer: Address of the caller; empty on a Unix socket.
            action: What is called.
        """
        if self._token is not None and peer:
            if wait_s := self._guesses.wait_s(peer):  # right or wrong: nobody is to know
                wait = math.ceil(wait_s)
                msg = f"too many wrong tokens came from {peer}: try again in {wait} s"
                raise flight.FlightUnavailableError(msg)
            if shown.wrong is None:
                self._guesses.note_right(peer)
        if shown.wrong is not None:
            self._guesses.note_wrong(peer, shown.wrong, action=action)
            raise flight.FlightUnauthenticatedError(shown.wrong)
        if claim := shown.claim:
            problem = self._leases.problem(int(claim) if claim.isdecimal() else -1)
            if problem is not None:
                raise flight.FlightUnauthorizedError(problem)


class _Shown(flight.ServerMiddleware):
    """What a call has shown: what is wrong with its token, if anything, and its fencing token."""

    def __init__(self, wrong: str | None, claim: str) -> None:
        super().__init__()
        self.wrong, self.claim = wrong, claim


class Credentials(flight.ClientMiddlewareFactory):
    """Sends token and fencing token with each call of a client.

    Args:
        token: The gateway's token, if it has one.
        claim: Returns the number of the driver's lease, once it has one.
    """

    def __init__(self, token: str | None, claim: Callable[[], int | None]) -> None:
        super().__init__()
        self._token = token
        self._claim = claim

    def start_call(self, info: Any) -> _Headers:  # noqa: ARG002
        """The headers of one call."""
        headers: dict[str, str] = {}
        if self._token is not None:
            headers[_TOKEN_HEADER] = f"Bearer {self._token}"
        if (claim := self._claim()) is not None:
            headers[_FENCING_HEADER] = str(claim)
        return _Headers(headers)


class _Headers(flight.ClientMiddleware):
    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__()
        self._headers = headers

    def sending_headers(self) -> dict[str, str]:
        return self._headers


def _first(headers: dict[str, list[Any]], name: str) -> str:
    """The text of header *name*, empty if it was not sent."""
    values = headers.get(name) or [""]
    value = values[0]
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
