"""Who may use the internal API: callers that know the token, and one driver, which has the lease.

Token and fencing token are headers of each call. A call without a fencing token is answered, such
as a command that shows the status. A call with the fencing token of an earlier lease is rejected,
whatever it asks for: that driver was presumed dead, and another one may have taken over.
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
"""Environment variable with the token, for processes that Spark starts on other machines."""
TOKEN_FILE_VARIABLE = "WALLAROO_GATEWAY_TOKEN_FILE"
"""Environment variable with the name of a file with the token, if such a file is mounted."""
AUTHORITIES_VARIABLE = "WALLAROO_GATEWAY_CA_FILE"
"""Environment variable with the name of a PEM file of authorities, one of which must have issued
the gateway's certificate. If it is set, a gateway on another machine is reached by TLS only."""
_TOKEN_HEADER, _FENCING_HEADER = "authorization", "wallaroo-fencing-token"
_MIN_TOKEN_BYTES = 16


def read_token(file: Path) -> str:
    """The token in *file*, without white space around it.

    Raises:
        UsageError: It cannot be read, or is too short to be secret.
    """
    try:
        token = file.read_text("ascii").strip()
    except (OSError, UnicodeError) as error:
        msg = f"the token file {file} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise UsageError(msg) from error
    if len(token) < _MIN_TOKEN_BYTES:
        msg = (
            f"the token in {file} has {len(token)} characters; "
            f"at least {_MIN_TOKEN_BYTES} are required"
        )
        raise UsageError(msg)
    return token


def token_here() -> str | None:
    """The token in this process's environment, if any.

    Raises:
        UsageError: The environment names a file that cannot be read.
    """
    if file := os.environ.get(TOKEN_FILE_VARIABLE):
        return read_token(Path(file))
    return os.environ.get(TOKEN_VARIABLE) or None


def authorities_here() -> bytes | None:
    """The authorities in this process's environment, if any.

    Raises:
        UsageError: The environment names a file that cannot be read.
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
    """Rejects calls at the gateway.

    Args:
        token: The token that callers must send; None to accept all calls, on a Unix socket.
        leases: Knows which driver may use the gateway.
    """

    def __init__(self, token: str | None, leases: Leases) -> None:
        super().__init__()
        self._token = None if token is None else f"Bearer {token}".encode()
        self._leases = leases

    def start_call(self, info: Any, headers: dict[str, list[Any]]) -> None:  # noqa: ARG002
        """Accept the call, or raise what its caller will see."""
        if self._token is not None:
            shown = _first(headers, _TOKEN_HEADER)
            if not hmac.compare_digest(shown.encode(), self._token):
                msg = (
                    "the token is not this gateway's"
                    if shown
                    else "authentication required: no token was sent"
                )
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
