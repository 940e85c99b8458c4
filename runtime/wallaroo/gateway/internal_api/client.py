"""The other end of the gateway's internal API: how the engine and the command line reach it.

A gateway may be killed and started anew, or stand still for a while: each call is tried again until
it is answered, for a bounded time. That is safe because a call that is repeated does nothing that
it has done before: whoever repeats it cannot know whether only the answer was lost.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyarrow import flight

from wallaroo.dataflow.records import Chunk, Outputs, Position, Tally
from wallaroo.engine.gateway_api import CheckpointProgress, Latest, Offsets, Range, Stopped
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway.consistency.agreement import Holdings
from wallaroo.gateway.dead_letters.store import Choice, DeadLetter, Origins
from wallaroo.gateway.internal_api.auth import (
    AUTHORITIES_VARIABLE,
    Credentials,
    authorities_here,
    token_here,
)
from wallaroo.gateway.internal_api.service import NO_ROOM, STOPPED, pack_staged
from wallaroo.gateway.internal_api.status import GatewayStatus, SinkStatus, SourceStatus
from wallaroo.gateway.internal_api.versions import introduction
from wallaroo.metrics.samples import Sample, from_json
from wallaroo.system.failpoints import fault

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
_GONE = (flight.FlightUnavailableError, flight.FlightTimedOutError, flight.FlightCancelledError)
"""What Flight raises where there was no answer; a gateway that closes cancels calls under way."""
_REFUSED = (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError)


@dataclass(frozen=True)
class Lease:
    """A gateway that is this driver's."""

    number: int
    """Number of the claim."""


class Refused(RuntimeFailure):
    """The gateway does not let this process in: a wrong token, or the gateway is another's."""


class GatewayClient:
    """A connection to a gateway; implements the engine's `GatewayAPI`.

    Args:
        location: Where the gateway's internal API is: `grpc+unix:///PATH`, `grpc://HOST:PORT`, or
            `grpc+tls://HOST:PORT`.
        claim: Number of the claim under which calls are made; None for calls without one.
        patience_s: Seconds to go on trying while the gateway does not answer.
        gone: Tells whether it is known that the gateway will not come back; then nothing is tried
            again.
        token: What to show there; None for what this process has in its environment, if anything.
        verify: Whether a gateway that speaks TLS has to show who it is, to the authorities that
            this process has in its environment.

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
        credentials = Credentials(token or token_here(), lambda: self._claim)
        self._client = flight.FlightClient(
            location,
            generic_options=_CHANNEL_OPTIONS,
            middleware=[credentials],
            **_secrecy(location, verify=verify),
        )

    def claim(self, holder: str) -> Lease:
        """Make the gateway this driver's; what this client asks for from now on, it asks as such.

        Args:
            holder: Name of the driver; one of the same name loses the gateway at once.

        Raises:
            Refused: Another driver has the gateway, and lives.
            RuntimeFailure: The gateway speaks another version of the internal API.
        """
        claim = Lease(**self._ask("claim", {"holder": holder, **introduction()}))
        self._claim = claim.number
        return claim

    def renew_claim(self) -> None:
        """Say that the driver lives.

        Raises:
            Refused: Another driver has claimed the gateway since.
        """
        self._ask("renew", {})

    def release_claim(self) -> None:
        """Let any other driver have the gateway at once."""
        self._ask("release", {})

    def held(self) -> Holdings:
        """What the gateway's journal and outbox hold."""
        return Holdings.from_json(self._ask("held", {}))

    def accept_lost(self, progress: CheckpointProgress) -> None:
        """Let journal and outbox resume from the *progress* of a checkpoint, soon: see `held`."""
        self._ask("accept_lost", asdict(progress))

    def latest(
        self,
        after: Offsets,
        max_bytes: int,
        max_messages: int,
        wait_s: float,
        opening: str | None = None,
    ) -> Latest:
        """See `GatewayAPI.latest`."""
        asked = {
            "after": dict(after),
            "max_bytes": max_bytes,
            "max_messages": max_messages,
            "wait_s": wait_s,
            "opening": opening,
        }
        return Latest(*self._ask("latest", asked, wait_s))

    def plan(self, start: Offsets, end: Offsets, parts: int) -> Sequence[Range]:
        """See `GatewayAPI.plan`."""
        asked = {"start": dict(start), "end": dict(end), "parts": parts}
        return [Range(Position(*first), after) for first, after in self._ask("plan", asked)]

    def read(self, messages: Range) -> Iterator[Sequence[Chunk]]:
        """See `GatewayAPI.read`."""
        patience = _Patience("read", self._patience_s, self._gone)
        (log, start), end = messages
        while True:
            try:
                for block in self._blocks(Range(Position(log, start), end)):
                    start = block[-1].first + block[-1].messages
                    patience.renew()
                    yield block
            except _GONE as error:  # resume after what has come
                patience.wait(error)
            except (flight.FlightError, pa.ArrowException) as error:
                raise _failure(patience.action, error) from error
            else:
                return

    def stage(
        self, run: str, epoch: int, token: str, outputs: Sequence[Outputs], tally: Tally
    ) -> None:
        """See `GatewayAPI.stage`."""
        command = {
            "run": run,
            "epoch": epoch,
            "token": token,
            "tally": tally.to_json(),
            "call": uuid.uuid4().hex,  # by it the gateway recognises a repeated call
        }
        fault("worker-before-stage")
        self._call("stage", pack_staged(command, outputs))
        fault("worker-after-stage")

    def publish(
        self, run: str, epoch: int, tokens: Sequence[str], offsets: Offsets
    ) -> Tally | None:
        """See `GatewayAPI.publish`."""
        asked = {"run": run, "epoch": epoch, "tokens": list(tokens), "offsets": dict(offsets)}
        fault("driver-before-publish")
        told = self._ask("publish", asked)
        fault("driver-after-publish")
        return None if told is None else Tally.from_json(told)

    def wake(self, at_ns: int | None) -> None:
        """See `GatewayAPI.wake`."""
        self._ask("wake", {"at_ns": at_ns})

    def consume(self, end: Offsets) -> None:
        """See `GatewayAPI.consume`."""
        self._ask("consume", {"end": dict(end)})

    def status(self) -> GatewayStatus:
        """What the gateway has done and holds now."""
        told = self._ask("status", {})
        sources = tuple(SourceStatus(**source) for source in told.pop("sources"))
        sinks = tuple(SinkStatus(**sink) for sink in told.pop("sinks"))
        return GatewayStatus(sources=sources, sinks=sinks, **told)

    def samples(self) -> list[Sample]:
        """The same in figures, with those of the batches that it has published."""
        return from_json(self._ask("samples", {}))

    def hot_keys(self) -> list[tuple[str, str, float]]:
        """State partition, key and recent messages of the keys with the most, the first first."""
        return [(state, key, count) for state, key, count in self._ask("hot_keys", {})]

    def wait_until_accepted(self, source: str, count: int, timeout_s: float) -> bool:
        """Wait until *count* messages of *source* are accepted; tells whether they are."""
        asked = {"source": source, "count": count, "timeout_s": timeout_s}
        return bool(self._ask("wait_accepted", asked, timeout_s))

    def stop_accepting(self) -> None:
        """Close the sources, once what their senders have delivered is accepted."""
        self._ask("stop_accepting", {})

    def letters(self, choice: Choice, most: int) -> list[DeadLetter]:
        """See `DeadLetterActions.letters`."""
        found = self._ask("letters", {**asdict(choice), "most": most})
        return [DeadLetter.from_json(letter) for letter in found]

    def letter_origins(self) -> Origins:
        """See `DeadLetterActions.letter_origins`."""
        return Origins(*self._ask("letter_origins", {}))

    def drop_letters(self, choice: Choice) -> int:
        """See `DeadLetterActions.drop_letters`."""
        return int(self._ask("drop_letters", asdict(choice)))

    def replay_letters(self, choice: Choice) -> int:
        """See `DeadLetterActions.replay_letters`."""
        return int(self._ask("replay_letters", asdict(choice)))

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _ask(self, action: str, argument: dict[str, Any], wait_s: float = 0.0) -> Any:
        return json.loads(self._call(action, json.dumps(argument).encode(), wait_s))

    def _call(self, action: str, body: bytes, wait_s: float = 0.0) -> bytes:
        """The answer to *action*, which may take *wait_s* seconds longer than others."""
        request = flight.Action(action, body)
        options = flight.FlightCallOptions(timeout=wait_s + _ANSWER_S)

        patience = _Patience(action, self._patience_s, self._gone)
        while True:
            try:
                (answer,) = self._client.do_action(request, options)
            except _GONE as error:
                patience.wait(error)
            except (flight.FlightError, pa.ArrowException) as error:
                raise _failure(action, error) from error
            else:
                return bytes(answer.body.to_pybytes())

    def _blocks(self, messages: Range) -> Iterator[list[Chunk]]:
        ticket = flight.Ticket(json.dumps(messages._asdict()).encode())
        log = messages.start.log
        options = flight.FlightCallOptions(timeout=_ANSWER_S)
        for piece in self._client.do_get(ticket, options):
            columns = [column.to_pylist() for column in piece.data.columns]
            yield [
                Chunk(first, count, source, arrived_ns, data, log)
                for first, count, source, arrived_ns, data in zip(*columns, strict=True)
            ]


def _secrecy(location: str, *, verify: bool) -> dict[str, Any]:
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
    """How long one call is tried again.

    Args:
        action: What is called.
        seconds: Time from the first attempt that failed to the last.
        gone: Tells whether there is nobody to wait for.
    """

    def __init__(self, action: str, seconds: float, gone: Callable[[], bool]) -> None:
        self.action = action
        self._seconds, self._gone = seconds, gone
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
        if self._give_up is None or _code(error) == NO_ROOM:  # which is an answer, too
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
