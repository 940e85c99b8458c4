"""The gateway's internal API: journal and outbox over Arrow Flight, for the engine's processes.

Actions take and give JSON; messages and outputs travel as Arrow record batches. Nothing that comes
in here is unpickled. Whatever is asked may be asked again, by a client that got no answer: it is
done once.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import flight

from wallaroo.dataflow.records import JOURNAL, Outputs, Position, Tally
from wallaroo.engine.gateway_api import Latest, Range, Stopped
from wallaroo.gateway.database import lacks_room
from wallaroo.gateway.dead_letters.store import EvidenceFinder
from wallaroo.gateway.internal_api.auth import Authenticator
from wallaroo.gateway.internal_api.leases import LeaseHeld
from wallaroo.gateway.internal_api.versions import check_version
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.observability.tracing import BatchId

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
_MIN_RANGE_BYTES = 128 * 1024
"""Messages of less than this are not worth a second task."""
NO_ROOM = b"no room"
"""Goes with an error: what is asked cannot be written now; it is asked again until it can."""
STOPPED = b"stopped"
"""Goes with an error that is `Stopped`: the answer will be the same when it is asked again."""
_LENGTH = struct.Struct(">I")


def pack_staged(command: Mapping[str, Any], outputs: Sequence[Outputs]) -> bytes:
    """The argument of the action `stage`: the length of *command* as JSON, that, and *outputs*.

    Not Flight's own way to upload, which knows no deadline while the other side takes nothing.
    """
    told = json.dumps(command).encode()
    columns = [
        pa.array([row[place] for row in outputs], of.type)
        for place, of in enumerate(OUTPUTS_SCHEMA)
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=OUTPUTS_SCHEMA)
    return b"".join([_LENGTH.pack(len(told)), told, batch.serialize()])


def unpack_staged(body: pa.Buffer) -> tuple[dict[str, Any], list[Outputs]]:
    """What `pack_staged` packed."""
    (length,) = _LENGTH.unpack_from(body)
    start = _LENGTH.size + length
    command = json.loads(body[_LENGTH.size : start].to_pybytes())
    rows = pa.ipc.read_record_batch(body[start:], OUTPUTS_SCHEMA).to_pylist()
    return command, [Outputs(row["sink"], row["lengths"], row["data"]) for row in rows]


class Service(flight.FlightServerBase):
    """Serves one gateway's journal and outbox.

    Args:
        location: Where to listen: `grpc+unix:///PATH`, `grpc://HOST:PORT`, `grpc+tls://HOST:PORT`.
        journal: The journal.
        outbox: The outbox.
        control: Further actions by name: the gateway's own, such as `status`.
        guard: Decides who may come in.
        judge: Says what becomes of messages that are set aside; None to keep none.
        followed: Follows messages through their batches; None where none are.
        certificate: Certificate and key, PEM, to show where the location asks for TLS.
    """

    def __init__(
        self,
        location: str,
        journal: Journal,
        outbox: Outbox,
        control: dict[str, Callable[[dict[str, Any]], Any]],
        guard: Authenticator,
        judge: EvidenceFinder | None = None,
        followed: MessageTraces | None = None,
        certificate: tuple[bytes, bytes] | None = None,
    ) -> None:
        certificates = [] if certificate is None else [certificate]
        super().__init__(location, tls_certificates=certificates, middleware={"guard": guard})
        self._journal = journal
        self._outbox = outbox
        self._judge = judge
        self._followed = followed
        self._actions: dict[str, Callable[[dict[str, Any]], Any]] = {
            "latest": self._latest,
            "plan": self._plan,
            "publish": self._publish,
            "consume": self._consume,
            "wake": lambda asked: self._journal.wake(asked["at_ns"]),
            **control,
        }

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:  # noqa: ARG002
        """Run an action on its argument: JSON, except for `stage`."""
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

    def do_get(self, context: Any, ticket: Any) -> Any:  # noqa: ARG002
        """Chunks of the range that the ticket names."""
        wanted = json.loads(ticket.ticket)
        start = Position(*wanted["start"])

        def batches() -> Iterator[pa.RecordBatch]:
            for block in self._journal.read(start.number, wanted["end"]):
                columns = [
                    pa.array(column, of.type)
                    # without the log, which is the ticket's
                    for column, of in zip(zip(*block, strict=True), CHUNK_SCHEMA, strict=False)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=CHUNK_SCHEMA)

        return flight.GeneratorStream(CHUNK_SCHEMA, batches())

    def _stage(self, body: pa.Buffer) -> None:
        told, outputs = unpack_staged(body)
        self._outbox.stage(
            told["run"],
            told["epoch"],
            told["token"],
            outputs,
            Tally.from_json(told["tally"]),
            told["call"],
        )

    def _latest(self, asked: dict[str, Any]) -> Latest:
        after, wait_s = asked["after"].get(JOURNAL, 0), asked["wait_s"]
        self._journal.check(after, asked["opening"])
        # the next batch is asked for when the last one is published; if that was planned with a
        # gateway that is no more, this one has not heard how far it reached
        if after > self._journal.processed:
            self._journal.note_processed(after)
        if not self._outbox.wait_for_room(wait_s):
            return Latest({JOURNAL: after}, self._journal.opening)
        self._journal.wait_beyond(after, wait_s)
        reached = self._journal.chunks.reach(after, asked["max_bytes"], asked["max_messages"])
        return Latest({JOURNAL: reached}, self._journal.opening)

    def _plan(self, asked: dict[str, Any]) -> list[Range]:
        start, end = asked["start"].get(JOURNAL, 0), asked["end"][JOURNAL]
        if self._followed is not None:
            self._followed.begin(start, end)
        ranges = self._journal.chunks.split(start, end, asked["parts"], _MIN_RANGE_BYTES)
        return [Range(Position(JOURNAL, first), behind) for first, behind in ranges]

    def _publish(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        end = asked["offsets"][JOURNAL]
        tally = self._outbox.publish(
            asked["run"], asked["epoch"], asked["tokens"], self._judge, end
        )
        self._journal.note_processed(end)
        if self._followed is not None:
            self._followed.published(BatchId(asked["run"], asked["epoch"]), end)
        return None if tally is None else tally.to_json()

    def _consume(self, asked: dict[str, Any]) -> None:
        self._journal.consume(asked["end"].get(JOURNAL, 0))
