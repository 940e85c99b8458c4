"""The other end of the gateway's inner door: how the engine and the command line reach it.

A gateway may be killed and started anew, or stand still for a while: each call is tried again until
it is answered, for a bounded time. That is safe because a call that is repeated does nothing that
it has done before: whoever repeats it cannot know whether only the answer was lost.
"""

from __future__ import annotations

import functools
import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import flight

from wallaroo.edge.service import NO_ROOM, pack_staged
from wallaroo.engine.ports import Chunk, Connect, Outputs, Tally
from wallaroo.errors import RuntimeFailure

PATIENCE_S = 60.0
"""Seconds that a gateway may be away: some times what a new one takes to start."""
_ANSWER_S = 60.0
"""Seconds that a call may take: the other machine may be gone without a word."""
_PAUSE_FIRST_S, _PAUSE_MOST_S = 0.05, 1.0
"""Pause before a call is tried again: doubles from the first to the most."""
_CHANNEL_OPTIONS = [
    # the channel's own pauses between connections grow to two minutes
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.use_local_subchannel_pool", 1),
]
_GONE = (flight.FlightUnavailableError, flight.FlightTimedOutError)
"""What Flight raises where there was no answer."""


@dataclass(frozen=True)
class GatewayStatus:
    """What a gateway has done and holds."""

    sources: tuple[SourceStatus, ...]
    connections: int
    """Connections of senders open now."""
    backlog: int
    """Messages accepted and not processed by a published batch."""
    backlog_bytes: int
    """Bytes of messages that the journal holds."""
    undelivered: int
    """Outputs published and not delivered."""
    published: int
    """Outputs that batches have published since the state directory was new."""
    delivered: int
    """Outputs that receivers have acknowledged since then."""
    set_aside: int
    """Messages set aside since then."""
    unknown_key: int
    """Messages dropped since then because their key is not listed."""
    late: int
    """Messages dropped since then because their windows had closed."""


@dataclass(frozen=True)
class SourceStatus:
    """One source of a gateway."""

    name: str
    host: str
    port: int
    """Port that is bound."""
    accepted: int
    """Messages accepted since the state directory was new."""


class GatewayClient:
    """A connection to a gateway; implements the engine's `Edge`.

    Args:
        location: Where the gateway's inner door is, `grpc+unix:///PATH` or `grpc://HOST:PORT`.
        patience_s: Seconds to go on trying while the gateway does not answer.
    """

    def __init__(self, location: str, *, patience_s: float = PATIENCE_S) -> None:
        self._location = location
        self._patience_s = patience_s
        self._client = flight.FlightClient(location, generic_options=_CHANNEL_OPTIONS)

    def latest(self, after: int, max_bytes: int, wait_s: float) -> int:
        """See `Edge.latest`."""
        asked = {"after": after, "max_bytes": max_bytes, "wait_s": wait_s}
        return int(self._ask("latest", asked, wait_s))

    def plan(self, start: int, end: int, parts: int) -> Sequence[tuple[int, int]]:
        """See `Edge.plan`."""
        return [(a, b) for a, b in self._ask("plan", {"start": start, "end": end, "parts": parts})]

    def read(self, start: int, end: int) -> Iterator[Sequence[Chunk]]:
        """See `Edge.read`."""
        patience = _Patience("read", self._patience_s)
        while True:
            try:
                for block in self._blocks(start, end):
                    start = block[-1].first + block[-1].messages
                    patience.renew()
                    yield block
            except _GONE as error:  # go on behind what came
                patience.wait(error)
            except (flight.FlightError, pa.ArrowException) as error:
                raise _failure(patience.action, error) from error
            else:
                return

    def stage(self, token: str, outputs: Sequence[Outputs], tally: Tally) -> None:
        """See `Edge.stage`."""
        # the call's own name lets the gateway tell a call that is repeated from the next one
        command = {"token": token, "call": uuid.uuid4().hex, "tally": tally.to_json()}
        self._call("stage", pack_staged(command, outputs))

    def publish(self, run: str, batch: int, tokens: Sequence[str]) -> Tally:
        """See `Edge.publish`."""
        asked = {"run": run, "batch": batch, "tokens": list(tokens)}
        return Tally.from_json(self._ask("publish", asked))

    def wake(self, at_ns: int | None) -> None:
        """See `Edge.wake`."""
        self._ask("wake", {"at_ns": at_ns})

    def trim(self, end: int) -> None:
        """See `Edge.trim`."""
        self._ask("trim", {"end": end})

    def status(self) -> GatewayStatus:
        """What the gateway has done and holds now."""
        told = self._ask("status", {})
        sources = tuple(SourceStatus(**source) for source in told.pop("sources"))
        return GatewayStatus(sources=sources, **told)

    def wait_until_accepted(self, source: str, count: int, timeout_s: float) -> bool:
        """Wait until *count* messages of *source* are accepted; tells whether they are."""
        asked = {"source": source, "count": count, "timeout_s": timeout_s}
        return bool(self._ask("wait_accepted", asked, timeout_s))

    def stop_accepting(self) -> None:
        """Close the sources, once what their senders have delivered is accepted."""
        self._ask("stop_accepting", {})

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _ask(self, action: str, argument: dict[str, Any], wait_s: float = 0.0) -> Any:
        return json.loads(self._call(action, json.dumps(argument).encode(), wait_s))

    def _call(self, action: str, body: bytes, wait_s: float = 0.0) -> bytes:
        """The answer to *action*, which may take *wait_s* seconds longer than others."""
        request = flight.Action(action, body)
        options = flight.FlightCallOptions(timeout=wait_s + _ANSWER_S)

        patience = _Patience(action, self._patience_s)
        while True:
            try:
                (answer,) = self._client.do_action(request, options)
            except _GONE as error:
                patience.wait(error)
            except (flight.FlightError, pa.ArrowException) as error:
                raise _failure(action, error) from error
            else:
                return bytes(answer.body.to_pybytes())

    def _blocks(self, start: int, end: int) -> Iterator[list[Chunk]]:
        ticket = flight.Ticket(json.dumps({"start": start, "end": end}).encode())
        options = flight.FlightCallOptions(timeout=_ANSWER_S)
        for piece in self._client.do_get(ticket, options):
            columns = [column.to_pylist() for column in piece.data.columns]
            yield [Chunk(*row) for row in zip(*columns, strict=True)]


class _Patience:
    """How long one call is tried again.

    Args:
        action: What is called.
        seconds: Time from the first attempt that failed to the last.
    """

    def __init__(self, action: str, seconds: float) -> None:
        self.action = action
        self._seconds = seconds
        self.renew()

    def renew(self) -> None:
        """Begin anew: the gateway has given a sign of life."""
        self._pause = _PAUSE_FIRST_S
        self._give_up: float | None = None

    def wait(self, error: Exception) -> None:
        """Wait before the next attempt, after *error*.

        Raises:
            RuntimeFailure: It has been long enough.
        """
        now = time.monotonic()
        if self._give_up is None or NO_ROOM in str(error):  # which is an answer, too
            self._give_up = now + self._seconds
        if now >= self._give_up:
            raise _failure(self.action, error, self._seconds) from error
        time.sleep(min(self._pause, self._give_up - now))
        self._pause = min(2 * self._pause, _PAUSE_MOST_S)


def connector(location: str) -> Connect:
    """A picklable function that connects to the gateway at *location*."""
    return functools.partial(GatewayClient, location)


def _failure(action: str, error: Exception, tried_s: float = 0.0) -> RuntimeFailure:
    text = str(error).split(". Detail:")[0]
    reason = text.splitlines()[0] if text else type(error).__name__
    tried = f" in {tried_s:.0f} s" if tried_s else ""
    return RuntimeFailure(f"the gateway did not do {action!r}{tried}: {reason}")
