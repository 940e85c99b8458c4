"""The other end of the gateway's inner door: how the engine and the command line reach it."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import flight

from wallaroo.edge.guard import Credentials, token_here
from wallaroo.edge.service import OUTPUTS_SCHEMA
from wallaroo.engine.ports import Chunk, Outputs, Tally
from wallaroo.errors import RuntimeFailure


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
    waited_s: float
    """Seconds that the first message of the backlog has waited."""
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


@dataclass(frozen=True)
class SourceStatus:
    """One source of a gateway."""

    name: str
    host: str
    port: int
    """Port that is bound."""
    accepted: int
    """Messages accepted since the state directory was new."""
    backlog: int
    """Messages accepted and not processed by a published batch."""


@dataclass(frozen=True)
class Claim:
    """A gateway that is this driver's."""

    number: int
    """Number of the claim."""
    journal: str
    """Random name of the gateway's journal."""


class GatewayClient:
    """A connection to a gateway; implements the engine's `Edge`.

    Args:
        location: Where the gateway's inner door is, `grpc+unix:///PATH` or `grpc://HOST:PORT`.
        claim: Number of the claim under which calls are made; None for calls without one.
        token: The gateway's token; None for the one in this process's environment, if any.
    """

    def __init__(self, location: str, claim: int | None = None, token: str | None = None) -> None:
        self._location = location
        self._claim = claim
        credentials = Credentials(token or token_here(), lambda: self._claim)
        self._client = flight.FlightClient(location, middleware=[credentials])

    def claim(self, holder: str) -> Claim:
        """Make the gateway this driver's; what this client asks for from now on, it asks as such.

        Args:
            holder: Name of the driver; one of the same name loses the gateway at once.

        Raises:
            RuntimeFailure: Another driver has the gateway, and lives.
        """
        claim = Claim(**self._ask("claim", holder=holder))
        self._claim = claim.number
        return claim

    def renew_claim(self) -> None:
        """Say that the driver lives.

        Raises:
            RuntimeFailure: Another driver has claimed the gateway since.
        """
        self._ask("renew")

    def release_claim(self) -> None:
        """Let any other driver have the gateway at once."""
        self._ask("release")

    def latest(self, after: int, max_bytes: int, wait_s: float) -> int:
        """See `Edge.latest`."""
        return int(self._ask("latest", after=after, max_bytes=max_bytes, wait_s=wait_s))

    def plan(self, start: int, end: int, parts: int) -> Sequence[tuple[int, int]]:
        """See `Edge.plan`."""
        return [(a, b) for a, b in self._ask("plan", start=start, end=end, parts=parts)]

    def read(self, start: int, end: int) -> Iterator[Sequence[Chunk]]:
        """See `Edge.read`."""
        ticket = flight.Ticket(json.dumps({"start": start, "end": end}).encode())
        with _failures_told("read"):
            for piece in self._client.do_get(ticket):
                columns = [column.to_pylist() for column in piece.data.columns]
                yield [Chunk(*row) for row in zip(*columns, strict=True)]

    def stage(self, token: str, outputs: Sequence[Outputs], tally: Tally) -> None:
        """See `Edge.stage`."""
        told = {"token": token, "call": uuid.uuid4().hex, "tally": tally.to_json()}
        command = json.dumps(told).encode()
        descriptor = flight.FlightDescriptor.for_command(command)
        with _failures_told("stage"):
            writer, _ = self._client.do_put(descriptor, OUTPUTS_SCHEMA)
            with writer:
                if outputs:
                    writer.write_batch(_record_batch(outputs))

    def publish(self, run: str, batch: int, tokens: Sequence[str]) -> Tally:
        """See `Edge.publish`."""
        return Tally.from_json(self._ask("publish", run=run, batch=batch, tokens=list(tokens)))

    def trim(self, end: int) -> None:
        """See `Edge.trim`."""
        self._ask("trim", end=end)

    def status(self) -> GatewayStatus:
        """What the gateway has done and holds now."""
        told = self._ask("status")
        sources = tuple(SourceStatus(**source) for source in told.pop("sources"))
        return GatewayStatus(sources=sources, **told)

    def wait_until_accepted(self, source: str, count: int, timeout_s: float) -> bool:
        """Wait until *count* messages of *source* are accepted; tells whether they are."""
        return bool(self._ask("wait_accepted", source=source, count=count, timeout_s=timeout_s))

    def stop_accepting(self) -> None:
        """Close the sources, once what their senders have delivered is accepted."""
        self._ask("stop_accepting")

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _ask(self, action: str, **argument: Any) -> Any:
        request = flight.Action(action, json.dumps(argument).encode())
        with _failures_told(action):
            (answer,) = self._client.do_action(request)
        return json.loads(answer.body.to_pybytes())


def _record_batch(outputs: Sequence[Outputs]) -> pa.RecordBatch:
    columns = [
        pa.array(column, of.type)
        for column, of in zip(zip(*outputs, strict=True), OUTPUTS_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=OUTPUTS_SCHEMA)


@contextlib.contextmanager
def _failures_told(action: str) -> Iterator[None]:
    """Raise what Flight raises in the block as a failure of *action*."""
    try:
        yield
    except (flight.FlightError, pa.ArrowException) as error:
        msg = f"the gateway did not do {action!r}: {_reason(error)}"
        raise RuntimeFailure(msg) from error


def _reason(error: Exception) -> str:
    text = str(error).split(". Detail:")[0]
    return text.splitlines()[0] if text else type(error).__name__
