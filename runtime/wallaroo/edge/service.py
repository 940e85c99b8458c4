"""The gateway's inner door: journal and outbox over Arrow Flight, for the engine's processes.

Actions take and give JSON; messages and outputs travel as Arrow record batches. Nothing that comes
in here is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyarrow import flight

from wallaroo.edge.claims import ClaimHeld
from wallaroo.edge.guard import Guard
from wallaroo.edge.journal import Journal
from wallaroo.edge.outbox import Outbox
from wallaroo.engine.ports import Outputs, Tally

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


class Service(flight.FlightServerBase):
    """Serves one gateway's journal and outbox.

    Args:
        location: Where to listen, `grpc+unix:///PATH` or `grpc://HOST:PORT`.
        journal: The journal.
        outbox: The outbox.
        control: Further actions by name: the gateway's own, such as `status`.
        guard: Decides who may come in.
    """

    def __init__(
        self,
        location: str,
        journal: Journal,
        outbox: Outbox,
        control: dict[str, Callable[[dict[str, Any]], Any]],
        guard: Guard,
    ) -> None:
        super().__init__(location, middleware={"guard": guard})
        self._journal = journal
        self._outbox = outbox
        self._planned_end = 0
        self._actions: dict[str, Callable[[dict[str, Any]], Any]] = {
            "latest": self._latest,
            "plan": self._plan,
            "publish": self._publish,
            "trim": self._trim,
            **control,
        }

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:  # noqa: ARG002
        """Run an action on its JSON argument."""
        handler = self._actions.get(action.type)
        if handler is None:
            msg = f"no action {action.type!r}"
            raise flight.FlightServerError(msg)
        try:
            answer = handler(json.loads(action.body.to_pybytes() or b"{}"))
        except (LookupError, ClaimHeld) as error:
            raise flight.FlightServerError(str(error)) from error
        return iter([json.dumps(answer).encode()])

    def do_get(self, context: Any, ticket: Any) -> Any:  # noqa: ARG002
        """Chunks of the range that the ticket names."""
        wanted = json.loads(ticket.ticket)

        def batches() -> Iterator[pa.RecordBatch]:
            for block in self._journal.read(wanted["start"], wanted["end"]):
                columns = [
                    pa.array(column, of.type)
                    for column, of in zip(zip(*block, strict=True), CHUNK_SCHEMA, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=CHUNK_SCHEMA)

        return flight.GeneratorStream(CHUNK_SCHEMA, batches())

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:  # noqa: ARG002
        """Stage outputs under the token that the descriptor names, with its tally."""
        told = json.loads(descriptor.command)
        outputs = [
            Outputs(row["sink"], row["lengths"], row["data"])
            for row in reader.read_all().to_pylist()
        ]
        tally = Tally.from_json(told["tally"])
        self._outbox.stage(told["token"], outputs, tally, told["call"])

    def _latest(self, asked: dict[str, Any]) -> int:
        after, wait_s = asked["after"], asked["wait_s"]
        # all before it is published: a gateway that was started anew in mid-batch learns it here
        if self._journal.backlog and after > self._journal.processed:
            self._journal.note_processed(after)
        if not self._outbox.wait_for_room(wait_s):
            return int(after)
        self._journal.wait_beyond(after, wait_s)
        return self._journal.reach(after, asked["max_bytes"])

    def _plan(self, asked: dict[str, Any]) -> list[tuple[int, int]]:
        self._planned_end = asked["end"]
        return self._journal.split(asked["start"], asked["end"], asked["parts"], _MIN_RANGE_BYTES)

    def _publish(self, asked: dict[str, Any]) -> dict[str, Any]:
        tally = self._outbox.publish(asked["run"], asked["batch"], asked["tokens"])
        self._journal.note_processed(self._planned_end)
        return tally.to_json()

    def _trim(self, asked: dict[str, Any]) -> None:
        self._journal.trim(asked["end"])
