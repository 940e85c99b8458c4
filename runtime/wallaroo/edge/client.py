"""The other end of the gateway's inner door: how the engine and the command line reach it."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import flight

from wallaroo.edge.service import OUTPUTS_SCHEMA
from wallaroo.engine.ports import Chunk, Connect, Outputs, Tally
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
    undelivered: int
    """Outputs published and not delivered."""
    waits_for_time: bool
    """Whether windows are open that will close as time goes by."""
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
    where: str
    """`HOST:PORT` that is bound, or what is read."""
    accepted: int
    """Messages accepted since the state directory was new."""
    ended: bool = False
    """Whether it has come to its end, and gives no more messages in this run."""
    failures: int = 0
    """Times that reading has failed since its last message."""
    problem: str | None = None
    """Why it failed last; None where it has not since its last message."""


class GatewayClient:
    """A connection to a gateway; implements the engine's `Edge`.

    Args:
        location: Where the gateway's inner door is, `grpc+unix:///PATH` or `grpc://HOST:PORT`.
    """

    def __init__(self, location: str) -> None:
        self._location = location
        self._client = flight.FlightClient(location)

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
        command = json.dumps({"token": token, "tally": tally.to_json()}).encode()
        descriptor = flight.FlightDescriptor.for_command(command)
        with _failures_told("stage"):
            writer, _ = self._client.do_put(descriptor, OUTPUTS_SCHEMA)
            with writer:
                if outputs:
                    writer.write_batch(_record_batch(outputs))

    def publish(self, run: str, batch: int, tokens: Sequence[str]) -> Tally:
        """See `Edge.publish`."""
        return Tally.from_json(self._ask("publish", run=run, batch=batch, tokens=list(tokens)))

    def wake(self, at_ns: int | None) -> None:
        """See `Edge.wake`."""
        self._ask("wake", at_ns=at_ns)

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


def connector(location: str) -> Connect:
    """A picklable function that connects to the gateway at *location*."""
    return functools.partial(GatewayClient, location)


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
