"""Who may use the internal API: whoever knows the token, and of the drivers the last to claim it.

Both travel as headers of each call. A call without a claim is answered (the command line asks for
the status); one with the claim of an earlier driver is not, whatever it asks: that driver was
declared dead, and may not touch what is another's now.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyarrow import flight

from wallaroo.errors import UsageError
from wallaroo.gateway.internal_api.leases import Leases

TOKEN_VARIABLE = "WALLAROO_GATEWAY_TOKEN"
"""Environment variable with the token; processes that Spark starts elsewhere get it so."""
TOKEN_FILE_VARIABLE = "WALLAROO_GATEWAY_TOKEN_FILE"
"""Environment variable with the name of a file with the token, where such a file is mounted."""
AUTHORITIES_VARIABLE = "WALLAROO_GATEWAY_CA_FILE"
"""Environment variable with the name of a file of authorities, PEM, that the gateway must have a
certificate of; where it is set, a gateway on another machine is spoken to by TLS alone."""
_TOKEN_HEADER, _CLAIM_HEADER = "authorization", "wallaroo-claim"
_MIN_TOKEN_BYTES = 16


def read_token(file: Path) -> str:
    """The token in *file*, without white space around it.

    Raises:
        UsageError: It cannot be read, or is too short to keep anybody out.
    """
    try:
        token = file.read_text("ascii").strip()
    except (OSError, UnicodeError) as error:
        msg = f"the token file {file} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise UsageError(msg) from error
    if len(token) < _MIN_TOKEN_BYTES:
        msg = f"the token in {file} has {len(token)} characters, and {_MIN_TOKEN_BYTES} are due"
        raise UsageError(msg)
    return token


def token_here() -> str | None:
    """The token that this process was given in its environment, if it was.

    Raises:
        UsageError: It was given a file that cannot be read.
    """
    if file := os.environ.get(TOKEN_FILE_VARIABLE):
        return read_token(Path(file))
    return os.environ.get(TOKEN_VARIABLE) or None


def authorities_here() -> bytes | None:
    """The authorities that this process was given in its environment, if it was.

    Raises:
        UsageError: It was given a file that cannot be read.
    """
    file = os.environ.get(AUTHORITIES_VARIABLE)
    if not file:
        return None
    try:
        return Path(file).read_bytes()
    except OSError as error:
        msg = f"the authorities of the gateway in {file} cannot be read: {error.strerror}"
        raise UsageError(msg) from error


def location_of(address: str, *, secret: bool) -> str:
    """Location of the internal API at *address*, `HOST:PORT`.

    Example:
        >>> location_of("gateway:7900", secret=True)
        'grpc+tls://gateway:7900'
    """
    return f"grpc+tls://{address}" if secret else f"grpc://{address}"


class Authenticator(flight.ServerMiddlewareFactory):
    """Turns calls away at the gateway.

    Args:
        token: The token that callers must show; None lets everyone in, for a Unix socket.
        claims: Knows whose the gateway is.
    """

    def __init__(self, token: str | None, claims: Leases) -> None:
        super().__init__()
        self._token = None if token is None else f"Bearer {token}".encode()
        self._claims = claims

    def start_call(self, info: Any, headers: dict[str, list[Any]]) -> None:  # noqa: ARG002
        """Let the call in, or raise what its caller gets to see."""
        if self._token is not None:
            shown = _first(headers, _TOKEN_HEADER)
            if not hmac.compare_digest(shown.encode(), self._token):
                msg = (
                    "the token is not this gateway's"
                    if shown
                    else "authentication required: no token was sent"
                )
                raise flight.FlightUnauthenticatedError(msg)
        if claim := _first(headers, _CLAIM_HEADER):
            problem = self._claims.problem(int(claim) if claim.isdecimal() else -1)
            if problem is not None:
                raise flight.FlightUnauthorizedError(problem)


class Credentials(flight.ClientMiddlewareFactory):
    """Shows token and claim with each call of a client.

    Args:
        token: The gateway's token, if it has one.
        claim: Gives the number of the driver's claim, if there is one by now.
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
            headers[_CLAIM_HEADER] = str(claim)
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
