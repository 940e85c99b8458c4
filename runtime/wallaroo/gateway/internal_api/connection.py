"""A connection to a gateway's internal API, over which calls are repeated until they are answered.

A gateway may be killed and restarted, or be unresponsive for a while: each call is repeated until
it is answered, for a limited time. That is safe because the gateway does nothing twice: a caller
cannot know whether only the answer was lost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyarrow import flight

from wallaroo.engine.gateway_api import Stopped
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway.internal_api.auth import Credentials
from wallaroo.gateway.internal_api.door import CALL_BYTES
from wallaroo.gateway.internal_api.service import GREETING, NO_ROOM, STOPPED
from wallaroo.system.credentials import AUTHORITIES_VARIABLE, authorities_here, token_here

PATIENCE_S = 60.0
"""Seconds that a gateway may be away: several times what a new one takes to start."""
_ANSWER_S = 60.0
"""Seconds that a call may take: the other machine may have vanished."""
_PAUSE_FIRST_S, _PAUSE_MOST_S = 0.05, 1.0
"""Pause before a call is repeated: doubles from the first to the most."""
SMALL_BYTES = 16 * 1024
"""Larger calls wait until the gateway has accepted another one: see `door`."""
_CHANNEL_OPTIONS = [
    # the channel's own pauses between connections grow to two minutes
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.use_local_subchannel_pool", 1),
]
_GONE = (flight.FlightUnavailableError, flight.FlightTimedOutError, flight.FlightCancelledError)
"""What Flight raises if there was no answer; a gateway that closes cancels calls in progress."""
_REFUSED = (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError)


class Refused(RuntimeFailure):
    """The gateway rejects this process: its token is wrong, or another driver has the lease."""


class Connection:
    """A connection to a gateway.

    Args:
        location: Where the gateway's internal API is: `grpc+unix:///PATH`, `grpc://HOST:PORT`, or
            `grpc+tls://HOST:PORT`.
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
        self._greeted = False
        """Whether the gateway has accepted a call on this connection."""
        credentials = Credentials(token or token_here(), lambda: self._claim)
        self._client = flight.FlightClient(
            location,
            generic_options=_CHANNEL_OPTIONS,
            middleware=[credentials],
            **_tls_options(location, verify=verify),
        )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _ask(self, action: str, argument: dict[str, Any], wait_s: float = 0.0) -> Any:
        return json.loads(self._call(action, json.dumps(argument).encode(), wait_s))

    def _call(self, action: str, body: bytes, wait_s: float = 0.0) -> bytes:
        """The answer to *action*, which may take *wait_s* seconds longer than others."""
        if len(body) > CALL_BYTES:
            msg = (
                f"gateway call {action!r} has {len(body):,} bytes, and the gateway takes "
                f"{CALL_BYTES:,}: let messages and outputs be smaller"
            )
            raise RuntimeFailure(msg)
        request = flight.Action(action, body)
        options = flight.FlightCallOptions(timeout=wait_s + _ANSWER_S)
        patience = _Patience(action, self._patience_s, self._gone)
        while True:
            try:
                if len(body) > SMALL_BYTES and not self._greeted:
                    list(self._client.do_action(flight.Action(GREETING, b""), options))
                (answer,) = self._client.do_action(request, options)
                self._greeted = True
            except _GONE as error:
                self._greeted = False
                patience.wait(error)
            except (flight.FlightError, pa.ArrowException) as error:
                raise _failure(action, error) from error
            else:
                return bytes(answer.body.to_pybytes())

    def _rows(self, action: str, rest: Mapping[str, Any]) -> Iterator[list[Any]]:
        """The rows of a stream, in blocks.

        Args:
            action: Name of the stream, for errors.
            rest: What to ask for. The caller updates it after each block, so that the stream
                resumes after the last block if it is interrupted.
        """
        patience = _Patience(action, self._patience_s, self._gone)
        options = flight.FlightCallOptions(timeout=_ANSWER_S)
        while True:
            try:
                request = flight.Ticket(json.dumps(rest).encode())
                for piece in self._client.do_get(request, options):
                    patience.renew()
                    columns = [column.to_pylist() for column in piece.data.columns]
                    yield list(zip(*columns, strict=True))
            except _GONE as error:
                patience.wait(error)
            except (flight.FlightError, pa.ArrowException) as error:
                raise _failure(action, error) from error
            else:
                return


def _tls_options(location: str, *, verify: bool) -> dict[str, Any]:
    """What Flight's client needs for TLS."""
    if not location.startswith("grpc+tls://"):
        return {}
    if not verify:
        return {"disable_server_verification": True}
    authorities = authorities_here()
    if authorities is None:
        msg = f"the gateway at {location} speaks TLS: {AUTHORITIES_VARIABLE} is to name a file"
        raise UsageError(msg)
    return {"tls_root_certs": authorities}


class _Patience:
    """How long one call is repeated.

    Args:
        action: What is called.
        seconds: Time from the first attempt that failed to the last.
        gone: Returns whether the gateway is known not to come back.
    """

    def __init__(self, action: str, seconds: float, gone: Callable[[], bool]) -> None:
        self.action = action
        self._seconds, self._gone = seconds, gone
        self.renew()

    def renew(self) -> None:
        """Start again: the gateway has answered something."""
        self._pause = _PAUSE_FIRST_S
        self._give_up: float | None = None

    def wait(self, error: Exception) -> None:
        """Wait before the next attempt, after *error*.

        Raises:
            RuntimeFailure: It has been long enough.
        """
        now = time.monotonic()
        if self._give_up is None or _code(error) == NO_ROOM:  # which is also an answer
            self._give_up = now + self._seconds
        if now >= self._give_up or self._gone():
            raise _failure(self.action, error, self._seconds) from error
        time.sleep(min(self._pause, self._give_up - now))
        self._pause = min(2 * self._pause, _PAUSE_MOST_S)


def _failure(action: str, error: Exception, tried_s: float = 0.0) -> RuntimeFailure:
    text = str(error).split(". Detail:")[0]
    reason = text.splitlines()[0] if text else type(error).__name__
    if _code(error) == STOPPED:
        return Stopped(reason)
    if isinstance(error, _REFUSED):
        return Refused(f"the gateway refused {action!r}: {reason}")
    tried = f" after {tried_s:.0f} s" if tried_s else ""
    return RuntimeFailure(f"gateway call {action!r} failed{tried}: {reason}")


def _code(error: Exception) -> bytes:
    """What goes with *error* for programs to read, if the gateway has answered with it."""
    return error.extra_info if isinstance(error, flight.FlightError) else b""
