"""The gateway's internal API: journal and outbox over Arrow Flight, for the engine's processes.

Actions take and return JSON; messages and outputs travel as Arrow record batches. Nothing that
arrives here is unpickled. A client that got no answer repeats its call, so repeated calls have no
further effect.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import flight

from wallaroo.dataflow.records import JOURNAL, Outputs, Position, Tally
from wallaroo.engine.gateway_api import Latest, Range, StateChange, Stopped
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.database import lacks_room
from wallaroo.gateway.dead_letters.evidence import EvidenceFinder
from wallaroo.gateway.internal_api.auth import Authenticator
from wallaroo.gateway.internal_api.door import Door
from wallaroo.gateway.internal_api.leases import LeaseHeld
from wallaroo.gateway.internal_api.versions import check_version
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.observability.tracing import BatchId
from wallaroo.system.binding import why_not_bound
from wallaroo.system.tls import server_context

if TYPE_CHECKING:  # needs packages that may not be there
    from wallaroo.gateway.traces import MessageTraces

CHUNK_SCHEMA = pa.schema(
    [
        ("first", pa.int64()),
        ("count", pa.int64()),
        ("source", pa.int32()),
        ("arrived_ns", pa.int64()),
        ("data", pa.binary()),
    ]
)
OUTPUTS_SCHEMA = pa.schema(
    [("sink", pa.int32()), ("lengths", pa.binary()), ("data", pa.large_binary())]
)
STAGED_CHANGE_SCHEMA = pa.schema(
    [("state", pa.string()), ("bucket", pa.int32()), ("change", pa.large_binary())]
)
CHANGE_SCHEMA = pa.schema([("epoch", pa.int64()), ("number", pa.int64()), *STAGED_CHANGE_SCHEMA])
_MIN_RANGE_BYTES = 128 * 1024
"""Fewer bytes of messages are not worth a second task."""
NO_ROOM = b"no room"
"""Goes with an error: the disk is full; the client repeats the call until it has room."""
STOPPED = b"stopped"
"""Goes with an error that is `Stopped`: a repeated call would fail the same way."""
GREETING = "greet"
"""The action that makes a caller known before it makes a large call."""
_LENGTHS = struct.Struct(">IQ")


def pack_staged(
    command: Mapping[str, Any], outputs: Sequence[Outputs], changes: Sequence[StateChange] = ()
) -> bytes:
    """The argument of the action `stage`: two lengths, *command* as JSON, *outputs*, *changes*.

    Flight's own uploads have no deadline while the other side takes nothing.
    """
    head, staged = json.dumps(command).encode(), _batch(outputs, OUTPUTS_SCHEMA).serialize()
    parts = [_LENGTHS.pack(len(head), staged.size), head, staged]
    if changes:
        parts.append(_batch(changes, STAGED_CHANGE_SCHEMA).serialize())
    return b"".join(parts)


def unpack_staged(body: pa.Buffer) -> tuple[dict[str, Any], list[Outputs], list[StateChange]]:
    """What `pack_staged` packed."""
    head, staged = _LENGTHS.unpack_from(body)
    start = _LENGTHS.size + head
    command = json.loads(body[_LENGTHS.size : start].to_pybytes())
    rows = pa.ipc.read_record_batch(body[start : start + staged], OUTPUTS_SCHEMA).to_pylist()
    outputs = [Outputs(row["sink"], row["lengths"], row["data"]) for row in rows]
    changes: list[StateChange] = []
    if start + staged < body.size:
        found = pa.ipc.read_record_batch(body[start + staged :], STAGED_CHANGE_SCHEMA).to_pylist()
        changes = [StateChange(row["state"], row["bucket"], row["change"]) for row in found]
    return command, outputs, changes


def _batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """*rows* in the columns of *schema*; what rows have besides is left out."""
    values = zip(*rows, strict=True) if rows else ((),) * len(schema)
    columns = [pa.array(column, of.type) for column, of in zip(values, schema, strict=False)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class Service(flight.FlightServerBase):
    """Serves one gateway's journal and outbox.

    Args:
        location: Where to listen: `grpc+unix:///PATH`, `grpc://HOST:PORT`, `grpc+tls://HOST:PORT`.
        journal: The journal.
        outbox: The outbox.
        control: Further actions by name: the gateway's own, such as `status`.
        authenticator: Decides which calls are accepted.
        evidence: Decides which failed messages become dead letters, and finds their payloads;
            None to keep none.
        traces: Traces sampled messages; None for no traces.
        certificate: Certificate and key, PEM, if the location says TLS.

    Raises:
        RuntimeFailure: The port cannot be bound.
    """

    def __init__(
        self,
        location: str,
        journal: Journal,
        outbox: Outbox,
        control: dict[str, Callable[[dict[str, Any]], Any]],
        authenticator: Authenticator,
        evidence: EvidenceFinder | None = None,
        traces: MessageTraces | None = None,
        certificate: tuple[bytes, bytes] | None = None,
    ) -> None:
        scheme, _, address = location.partition("://")
        self._door: Door | None = None
        guarded = scheme in {"grpc", "grpc+tls"} and authenticator.asks_for_token
        within = Path(tempfile.mkdtemp(prefix="wallaroo-")) if guarded else None
        self._within = within
        """Directory of the socket behind the door."""
        super().__init__(
            location if within is None else f"grpc+unix://{within / 'flight'}",
            tls_certificates=[certificate] if certificate is not None and not guarded else [],
            middleware={"authenticator": authenticator},
        )
        if within is not None:
            host, _, port = address.rpartition(":")
            context = None if certificate is None else server_context(*certificate)
            try:
                self._door = Door(host.strip("[]"), int(port), within / "flight", context=context)
            except (OSError, UnicodeError) as error:
                super().shutdown()
                shutil.rmtree(within, ignore_errors=True)
                reason = why_not_bound(error, host, "--listen")
                msg = f"the internal API cannot listen on {address}: {reason}"
                raise RuntimeFailure(msg) from error
        self._authenticator = authenticator
        self._journal = journal
        self._outbox = outbox
        self._evidence = evidence
        self._traces = traces
        self._actions: dict[str, Callable[[dict[str, Any]], Any]] = {
            "latest": self._latest,
            "plan": self._plan,
            "publish": self._publish,
            "consume": self._consume,
            "forget_changes": lambda asked: self._outbox.forget_changes(
                asked["run"], asked["epoch"]
            ),
            GREETING: lambda _: None,
            "wake": lambda asked: self._journal.wake(
                asked["at_ns"], has_outputs=asked["has_outputs"]
            ),
            **control,
        }

    @property
    def port(self) -> int:
        """The port that is bound; 0 for a Unix socket."""
        return int(super().port) if self._door is None else self._door.port

    def shutdown(self) -> None:
        """Wait for the calls in progress, and stop serving."""
        super().shutdown()
        if self._door is not None:
            self._door.close()
        if self._within is not None:
            shutil.rmtree(self._within, ignore_errors=True)

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:
        """Run an action on its argument: JSON, except for `stage`."""
        self._admit(context, action.type)
        handler = self._actions.get(action.type)
        if handler is None and action.type != "stage":
            msg = f"no action {action.type!r}"
            raise flight.FlightServerError(msg)
        try:
            if handler is None:
                self._stage(action.body)
                return iter([b"null"])
            asked = json.loads(action.body.to_pybytes() or b"{}")
            if action.type == "claim":
                check_version(asked)
            answer = handler(asked)
        except LeaseHeld as error:
            raise flight.FlightUnauthorizedError(str(error)) from error
        except Stopped as error:
            raise flight.FlightServerError(str(error), STOPPED) from error
        except LookupError as error:
            raise flight.FlightServerError(str(error)) from error
        except sqlite3.Error as error:
            if lacks_room(error):
                msg = f"the disk has no room: {error}"
                raise flight.FlightUnavailableError(msg, NO_ROOM) from error
            raise
        return iter([json.dumps(answer).encode()])

    def do_get(self, context: Any, ticket: Any) -> Any:
        """Chunks of the range that the ticket names, or the changes that it names."""
        self._admit(context, "read")
        asked = json.loads(ticket.ticket)
        if "changes" in asked:
            schema, blocks = CHANGE_SCHEMA, self._outbox.changes(asked["changes"], *asked["after"])
            return flight.GeneratorStream(schema, (_batch(block, schema) for block in blocks))
        start = Position(*asked["start"])
        chunks = self._journal.read(start.number, asked["end"])
        return flight.GeneratorStream(
            CHUNK_SCHEMA,
            (_batch(block, CHUNK_SCHEMA) for block in chunks),  # the caller knows the log
        )

    def _admit(self, context: Any, action: str) -> None:
        """Accept a call, after which its caller may send large ones, or raise why not."""
        peer = context.peer()
        host = "" if self._door is None else self._door.host_of(peer)
        self._authenticator.admit(context.get_middleware("authenticator"), host, action)
        if self._door is not None:
            self._door.trust(peer)

    def _stage(self, body: pa.Buffer) -> None:
        command, outputs, changes = unpack_staged(body)
        self._outbox.stage(
            command["run"],
            command["epoch"],
            command["token"],
            outputs,
            Tally.from_json(command["tally"]),
            command["call"],
            changes,
        )

    def _latest(self, asked: dict[str, Any]) -> Latest:
        after, wait_s = asked["after"].get(JOURNAL, 0), asked["wait_s"]
        self._journal.check(after, asked["opening"])
        # the next batch is requested when the last one is published; if that happened at a gateway
        # that has been replaced, this one does not know yet how far it reached
        if after > self._journal.processed:
            self._journal.note_processed(after)
        if not self._outbox.wait_for_room(wait_s):
            return Latest({JOURNAL: after}, self._journal.opening)
        self._journal.wait_beyond(after, wait_s)
        reached = self._journal.chunks.reach(after, asked["max_bytes"], asked["max_messages"])
        return Latest({JOURNAL: reached}, self._journal.opening)

    def _plan(self, asked: dict[str, Any]) -> list[Range]:
        start, end = asked["start"].get(JOURNAL, 0), asked["end"][JOURNAL]
        if self._traces is not None:
            self._traces.begin(start, end)
        ranges = self._journal.chunks.split(start, end, asked["parts"], _MIN_RANGE_BYTES)
        return [Range(Position(JOURNAL, first), after) for first, after in ranges]

    def _publish(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        end = asked["offsets"][JOURNAL]
        tally = self._outbox.publish(
            asked["run"], asked["epoch"], asked["tokens"], self._evidence, end
        )
        self._journal.note_processed(end)
        if self._traces is not None:
            self._traces.published(BatchId(asked["run"], asked["epoch"]), end)
        return None if tally is None else tally.to_json()

    def _consume(self, asked: dict[str, Any]) -> None:
        self._journal.consume(asked["end"].get(JOURNAL, 0))
