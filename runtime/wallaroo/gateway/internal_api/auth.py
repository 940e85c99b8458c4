"""Who may use the internal API: callers that know the token, and one driver, which has the lease.

Token and fencing token are headers of each call. A call without a fencing token is answered, such
as a command that shows the status. A call with the fencing token of an earlier lease is rejected,
whatever it asks for: that driver was presumed dead, and another one may have taken over.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any

import structlog
from pyarrow import flight

from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.observability.logs import Repeats

log = structlog.get_logger("wallaroo.gateway")

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

    Args:
        token: The token that callers must send; None to accept all calls, on a Unix socket.
        leases: Knows which driver may use the gateway.
    """

    def __init__(self, token: str | None, leases: Leases) -> None:
        super().__init__()
        self._token = None if token is None else f"Bearer {token}".encode()
        self._leases = leases
        self._repeats = Repeats()

    @property
    def asks_for_token(self) -> bool:
        """Whether callers must send a token."""
        return self._token is not None

    def start_call(self, info: Any, headers: dict[str, list[Any]]) -> None:
        """Accept the call, or raise what its caller will see."""
        if self._token is not None:
            shown = _first(headers, _TOKEN_HEADER)
            if not hmac.compare_digest(shown.encode(), self._token):
                msg = (
                    "the token is not this gateway's"
                    if shown
                    else "authentication required: no token was sent"
                )
                if self._repeats.show(msg):
                    log.warning("call refused", reason=msg, method=str(info.method))
                raise flight.FlightUnauthenticatedError(msg)
        if claim := _first(headers, _FENCING_HEADER):
            problem = self._leases.problem(int(claim) if claim.isdecimal() else -1)
            if problem is not None:
                raise flight.FlightUnauthorizedError(problem)


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
