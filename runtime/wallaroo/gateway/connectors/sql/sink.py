"""Outputs as rows: published outputs in transactions that also hold the next output's number."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import structlog

from wallaroo.dataflow.records import FailedMessage
from wallaroo.gateway.connectors.sql.address import Database
from wallaroo.gateway.outbox.outbox import Outbox, Refused, cut_outputs
from wallaroo.gateway.outbox.queues import Delivery
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Sample
from wallaroo.model.raised import short_repr
from wallaroo.model.tables import SQLSink
from wallaroo.observability.logs import Repeats
from wallaroo.wire.rows import unpacked_row

if TYPE_CHECKING:  # needs packages that may not be installed
    from wallaroo.gateway.connectors.sql.table import SinkTable

_TRANSACTION_BYTES = 1024**2
"""Bytes of outputs over which a transaction takes no more."""
_IDLE_WAIT_S = 0.5
"""Wait for outputs while there are none, before looking whether to stop."""
_RETRY_FIRST_S, _RETRY_MOST_S = 0.1, 30.0
"""Pause before a transaction is repeated: doubles from the first to the most."""
_STOP_S = 5.0
"""Time that a sink has, at a stop, to finish a transaction."""

log = structlog.get_logger("wallaroo.gateway")


class SQLSinkWriter:
    """Writes one sink's outputs in a separate thread.

    Args:
        index: Index of the sink in the application.
        sink: The sink.
        outbox: Where the outputs are.

    Raises:
        RuntimeFailure: The extra or the driver is not installed, or the address cannot be used.
    """

    def __init__(self, index: int, sink: SQLSink, outbox: Outbox) -> None:
        self._index, self._sink, self._outbox = index, sink, outbox
        self._database = Database(sink)
        self._numbering = f"{outbox.identity}-{index}"
        self._taken = 0
        """Position in the outbox up to which outputs are in the table."""
        self._rows = self._transactions = 0
        self._stopping = threading.Event()
        self._settling = threading.Lock()
        """Held while outputs are noted as delivered, which does not happen after a stop."""
        self._repeats = Repeats()
        self.problem: str | None = None
        """Why outputs are not written now; None while they are."""
        self._thread = threading.Thread(target=self._run, name=f"sink-{index}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop writing; what is not delivered stays in the outbox."""
        self._stopping.set()
        self._thread.join(_STOP_S)
        if self._thread.is_alive():
            log.warning("sink does not stop", **self._names(), reason="it waits for the database")
            self._settling.acquire()  # for good: what is still written is recognised at the start

    def samples(self) -> Iterator[Sample]:
        """Rows and transactions since the gateway started."""
        name = (self._sink.name,)
        yield Sample(catalogue.SQL_ROWS, name, self._rows)
        yield Sample(catalogue.SQL_TRANSACTIONS, name, self._transactions)

    def _run(self) -> None:
        pause = _RETRY_FIRST_S
        while not self._stopping.is_set():
            taken = self._taken
            try:
                self._write()
            except Exception as error:  # this thread continues, whatever it is
                pause = _RETRY_FIRST_S if taken != self._taken else pause
                self._note(error, pause)
                self._stopping.wait(pause)
                pause = min(pause * 2, _RETRY_MOST_S)

    def _write(self) -> None:
        """Write outputs as they are published, until stopped."""
        from wallaroo.gateway.connectors.sql.table import SinkTable

        table = SinkTable(self._database.engine, self._sink, self._numbering)
        with contextlib.closing(table):
            known = table.refused()
            log.info("sink resumes", **self._names(), output=table.next)
            while not self._stopping.is_set():
                if not (deliveries := _alike(self._gathered(), table.next)):
                    self.problem = None
                    continue
                refused = self._write_to(table, deliveries, known)
                with self._settling:
                    self._outbox.delivered(self._index, deliveries[-1].position, refused=refused)
                self._taken = deliveries[-1].position
                self.problem = None

    def _gathered(self) -> list[Delivery]:
        """Outputs that are published, in order, for one transaction."""
        found: list[Delivery] = []
        size, position, wait_s = 0, self._taken, _IDLE_WAIT_S
        while size < _TRANSACTION_BYTES:
            delivery = self._outbox.next(self._index, position, wait_s)
            if delivery is None:
                break
            found.append(delivery)
            size, position, wait_s = size + len(delivery.outputs.data), delivery.position, 0.0
        return found

    def _write_to(
        self, table: SinkTable, deliveries: Sequence[Delivery], known: dict[int, str]
    ) -> list[Refused]:
        """Write *deliveries*, except what the table has already; returns what it refuses.

        Args:
            table: The table.
            deliveries: Outputs in order.
            known: What it has refused before the start, and why.
        """
        outputs = {
            number: output
            for delivery in deliveries
            for number, output in enumerate(cut_outputs(delivery.outputs), delivery.number - 1)
        }
        new = [number for number in outputs if number >= table.next]
        refused = {number: known.pop(number) for number in outputs if number in known}
        if new:
            rows = [(number, unpacked_row(outputs[number])) for number in new]
            reasons = table.write(new[-1] + 1, rows, sets_aside=self._sink.sets_aside)
            self._rows += len(rows) - len(reasons)
            self._transactions += 1
            refused |= reasons
        return [
            self._set_aside(number, outputs[number], reason) for number, reason in refused.items()
        ]

    def _set_aside(self, number: int, output: bytes, reason: str) -> Refused:
        if self._repeats.show(("set aside", reason)):
            log.warning("output set aside", **self._names(), number=number + 1, reason=reason)
        step, place = f"sink {self._sink.name}", f"output {number + 1}"
        letter = FailedMessage("", step, place, self._database.redacted(reason), short_repr(output))
        return Refused(letter.storable(), output)

    def _note(self, error: Exception, next_try_s: float) -> None:
        from wallaroo.gateway.connectors.sql.table import reason_of

        self.problem = reason = self._database.redacted(reason_of(error))
        if self._repeats.show(reason):
            log.warning(
                "sink failed",
                **self._names(),
                reason=reason,
                next_try_s=next_try_s,
                outputs="wait on disk",
            )

    def _names(self) -> dict[str, str]:
        return {"sink": self._sink.name, "writes": self._sink.where}


def _alike(deliveries: Sequence[Delivery], number: int) -> list[Delivery]:
    """The first of *deliveries* that the table has, up to *number*, or all if it has none.

    What is new is written when what it refused before is noted: it forgets that then.
    """
    known = [one for one in deliveries if one.number - 1 < number]
    return known or list(deliveries)
