"""Calls of a gateway's internal API, which are repeated until they are answered.

A gateway may be killed and restarted, or be unresponsive for a while: each call is repeated until
it is answered, for a limited time. That is safe because the gateway does nothing twice: a caller
cannot know whether only the answer was lost.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from wallaroo.errors import RuntimeFailure, UsageError, reason_of
from wallaroo.gateway.internal_api.calls import (
    AWAY,
    CALL_BYTES,
    FENCING_HEADER,
    NO_ROOM,
    PATH,
    REFUSED,
    TOKEN_HEADER,
)
from wallaroo.gateway.internal_api.location import socket_in
from wallaroo.system.credentials import AUTHORITIES_VARIABLE, token_here, trusting_here
from wallaroo.system.service_address import connected

PATIENCE_S = 60.0
"""Seconds that a gateway may be away: several times what a new one takes to start."""
_ANSWER_S = 60.0
"""Seconds that a call may take: the other machine may have vanished."""
_CONNECT_S = 2.0
"""Seconds that connecting may take: packets to the address of a pod that has gone are dropped, and
TCP repeats them after 1, 3 and 7 s, when another pod may have been there for long."""
_PAUSE_FIRST_S, _PAUSE_MOST_S = 0.05, 1.0
"""Pause before a call is repeated: doubles from the first to the most."""


class CallRefused(RuntimeFailure):
    """The gateway rejects this process: its token is wrong, or another driver has the lease."""


class TokenRefused(CallRefused):
    """The token of this process is not the gateway's."""


class _Unanswered(Exception):
    """A call may be repeated."""

    def __init__(self, reason: str, code: str = AWAY) -> None:
        super().__init__(reason)
        self.code = code


class GatewayConnection:
    """Calls one gateway, from any thread; each call has a connection of its own.

    Args:
        location: Where the gateway's internal API is, see `location`.
        claim: Number of the lease under which calls are made; None for calls without one.
        patience_s: Seconds to keep trying while the gateway does not answer.
        gone: Returns whether the gateway is known not to come back; then nothing is repeated.
        token: The token to send; None for the one in this process's environment, if any.
        verify: Whether a gateway that speaks TLS must present a certificate of the authorities in
            this process's environment.

    Raises:
        UsageError: A file that the environment names cannot be read, or TLS lacks authorities.
    """

    def __init__(
        self,
        location: str,
        *,
        claim: int | None = None,
        patience_s: float = PATIENCE_S,
        gone: Callable[[], bool] = lambda: False,
        token: str | None = None,
        verify: bool = True,
    ) -> None:
        self._location = location
        self._patience_s = patience_s
        self._gone = gone
        self._claim = claim
        self._token = token or token_here()
        self._context = _context(location, verify=verify)

    def _ask(
        self,
        action: str,
        argument: dict[str, Any],
        wait_s: float = 0.0,
        *,
        answer_s: float = _ANSWER_S,
    ) -> Any:
        """The answer to *action*, which may take *answer_s* seconds, and *wait_s* besides."""
        body = json.dumps(argument).encode()
        if len(body) > CALL_BYTES:
            msg = (
                f"gateway call {action!r} has {len(body):,} bytes, and the gateway takes "
                f"{CALL_BYTES:,}: ask for less at a time"
            )
            raise RuntimeFailure(msg)
        patience = _Patience(action, self._patience_s, self._gone)
        while True:
            try:
                return self._answer(action, body, wait_s + answer_s)
            except _Unanswered as error:
                patience.wait(error)

    def _answer(self, action: str, body: bytes, timeout_s: float) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers[TOKEN_HEADER] = f"Bearer {self._token}"
        if self._claim is not None:
            headers[FENCING_HEADER] = str(self._claim)
        with contextlib.closing(self._connection(timeout_s)) as connection:
            try:
                connection.timeout = min(timeout_s, _CONNECT_S)
                connected(connection.connect)
                connection.sock.settimeout(timeout_s)
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    # a gateway that refuses the call has perhaps not read all of it
                    connection.request("POST", f"{PATH}{action}", body, headers)
                response = connection.getresponse()
                content = response.read()
            except (OSError, http.client.HTTPException) as error:
                raise _Unanswered(reason_of(error) or type(error).__name__) from error
        try:
            answer = json.loads(content)
            if response.status == HTTPStatus.OK:
                return answer
            code, message = answer["error"], answer["message"]
        except (ValueError, LookupError, TypeError) as error:
            msg = f"gateway call {action!r} failed: HTTP status {response.status} without an answer"
            raise RuntimeFailure(msg) from error
        if code in {AWAY, NO_ROOM}:
            raise _Unanswered(message, code)
        if code == REFUSED:
            msg = f"the gateway refused {action!r}: {message}"
            of_token = response.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS}
            raise (TokenRefused if of_token else CallRefused)(msg)
        if response.status == HTTPStatus.NOT_FOUND:
            message += ", as it has another version of wallaroo: run both from one image"
        msg = f"gateway call {action!r} failed: {message}"
        raise RuntimeFailure(msg)

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if (path := socket_in(self._location)) is not None:
            return _UnixConnection(str(path), timeout_s)
        address = self._location.partition("://")[2]
        if self._context is None:
            return http.client.HTTPConnection(address, timeout=timeout_s)
        return http.client.HTTPSConnection(address, timeout=timeout_s, context=self._context)


class _UnixConnection(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("gateway", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect; for `http.client`."""
        self.close()  # after an attempt that was refused
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _context(location: str, *, verify: bool) -> ssl.SSLContext | None:
    """What TLS to the gateway at *location* requires; None if that speaks none."""
    if not location.startswith("https://"):
        return None
    if not verify:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context
    trusting = trusting_here()
    if trusting is None:
        msg = f"the gateway at {location} speaks TLS: {AUTHORITIES_VARIABLE} is to name a file"
        raise UsageError(msg)
    return trusting


class _Patience:
    """How long one call is repeated.

    Args:
        action: What is called.
        seconds: Time from the first attempt that failed to the last.
        gone: Returns whether the gateway is known not to come back.
    """

    def __init__(self, action: str, seconds: float, gone: Callable[[], bool]) -> None:
        self._action = action
        self._seconds, self._gone = seconds, gone
        self._pause = _PAUSE_FIRST_S
        self._give_up: float | None = None

    def wait(self, error: _Unanswered) -> None:
        """Wait before the next attempt, after *error*.

        Raises:
            RuntimeFailure: It has been long enough.
        """
        now = time.monotonic()
        if self._give_up is None or error.code == NO_ROOM:  # which is also an answer
            self._give_up = now + self._seconds
        if now >= self._give_up or self._gone():
            tried = f" after {self._seconds:.0f} s" if self._seconds else ""
            msg = f"gateway call {self._action!r} failed{tried}: {error}"
            raise RuntimeFailure(msg) from error
        time.sleep(min(self._pause, self._give_up - now))
        self._pause = min(2 * self._pause, _PAUSE_MOST_S)
