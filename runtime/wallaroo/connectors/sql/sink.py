"""Outputs as rows: published outputs in transactions that also hold the next output's number."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import structlog

from wallaroo.connectors.sql.address import Database
from wallaroo.connectors.sql.resolve import SQLSink
from wallaroo.connectors.threads import SinkThread, numbered
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.outbox.outbox import RefusedOutput
from wallaroo.gateway.outbox.queues import Delivery
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Sample
from wallaroo.wire.rows import unpacked_row

if TYPE_CHECKING:  # needs packages that may not be installed
    from wallaroo.connectors.sql.table import SinkTable

_TRANSACTION_BYTES = 1024**2
"""Bytes of outputs over which a transaction takes no more."""
log = structlog.get_logger("wallaroo.gateway")


class SQLSinkWriter(SinkThread[SQLSink]):
    """Writes one sink's outputs in a separate thread.

    Raises:
        RuntimeFailure: The extra or the driver is not installed, or the address cannot be used.
    """

    WAITS = "it waits for the database"

    def __init__(self, context: ConnectorContext, index: int, sink: SQLSink) -> None:
        super().__init__(context, index, sink)
        self._database = Database(sink)
        self._numbering = self._outbox.numbering(sink.name)
        self._rows = self._transactions = 0
        self._thread.start()

    def samples(self) -> Iterator[Sample]:
        """Rows and transactions since the gateway started."""
        name = (self._sink.name,)
        yield Sample(catalogue.SQL_ROWS, name, self._rows)
        yield Sample(catalogue.SQL_TRANSACTIONS, name, self._transactions)

    def _work(self) -> None:
        """Write outputs as they are published, until stopped."""
        from wallaroo.connectors.sql.table import SinkTable

        table = SinkTable(self._database.engine, self._sink, self._numbering)
        with contextlib.closing(table):
            skips = self._sink.skips_lost or table.is_new
            self._not_below_delivered(table.next, self._sink.where, skips=skips)
            known = table.refused()
            log.info("sink resumes", **self._names(), output=table.next)
            while not self._stopping.is_set():
                if not (deliveries := _alike(self._gathered(_TRANSACTION_BYTES), table.next)):
                    self.problem = None
                    continue
                refused = self._write_to(table, deliveries, known)
                self._settle(deliveries[-1].position, refused)

    def _write_to(
        self, table: SinkTable, deliveries: Sequence[Delivery], known: dict[int, str]
    ) -> list[RefusedOutput]:
        """Write *deliveries*, except what the table has already; returns what it refuses.

        Args:
            table: The table.
            deliveries: Outputs in order.
            known: What it has refused before the start, and why.
        """
        outputs = numbered(deliveries)
        new = [number for number in outputs if number >= table.next]
        refused = {number: known.pop(number) for number in outputs if number in known}
        if new:
            rows = [(number, unpacked_row(outputs[number])) for number in new]
            reasons = table.write(new[-1] + 1, rows, sets_aside=self._sink.sets_aside)
            self._rows += len(rows) - len(reasons)
            self._transactions += 1
            refused |= reasons
        return [
            self._set_aside(number + 1, outputs[number], self._database.redacted(reason))
            for number, reason in refused.items()
        ]

    def _reason(self, error: BaseException) -> str:
        from wallaroo.connectors.sql.table import message_of

        return self._database.redacted(message_of(error))


open_sink = SQLSinkWriter


def _alike(deliveries: Sequence[Delivery], number: int) -> list[Delivery]:
    """The first of *deliveries* that the table has, up to *number*, or all if it has none.

    What is new is written when what it refused before is noted: it forgets that then.
    """
    known = [one for one in deliveries if one.number - 1 < number]
    return known or list(deliveries)
