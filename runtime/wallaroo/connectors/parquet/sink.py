"""Outputs as files: they wait in the outbox until the file that holds them is complete."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from wallaroo.connectors import threads
from wallaroo.connectors.parquet.directory import FileSeries
from wallaroo.connectors.parquet.resolve import ParquetSink
from wallaroo.connectors.threads import SinkThread, numbered
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.outbox.queues import Delivery
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Sample
from wallaroo.user_code.exceptions import describe_error
from wallaroo.wire.rows import unpacked_row

_FILE_BYTES = 64 * 1024**2
"""Bytes of outputs after which a file is complete: they are in memory until then."""
_SERIES_LETTERS = 8
"""Letters of the outbox's name that are in the names of files."""


class ParquetSinkWriter(SinkThread[ParquetSink]):
    """Writes one sink's outputs in a separate thread."""

    WAITS = "it writes a file"

    def __init__(self, context: ConnectorContext, index: int, sink: ParquetSink) -> None:
        super().__init__(context, index, sink)
        self._series = self._outbox.numbering(sink.name, _SERIES_LETTERS)
        self._files = 0
        self._thread.start()

    def samples(self) -> Iterator[Sample]:
        """Files since the gateway started."""
        yield Sample(catalogue.PARQUET_FILES, (self._sink.name,), self._files)

    def _work(self) -> None:
        """Write outputs as they are published, until stopped."""
        series = FileSeries(self._sink.directory, self._series)
        with contextlib.closing(series):
            skips = self._sink.skips_lost or series.is_new
            series.next = self._not_below_delivered(series.next, self._sink.where, skips=skips)
            self._deliver_known(series)
            if self._outbox.next(self._index, self._taken, 0.0) is None:
                self.problem = None  # what failed was to note it
            while not self._stopping.is_set():
                deliveries = self._for_one_file()
                if not self._stopping.is_set() and deliveries:
                    self._write_file(series, deliveries)

    def _deliver_known(self, series: FileSeries) -> None:
        """Note as delivered what was written before the start, or before a failure."""
        while (delivery := self._outbox.next(self._index, self._taken, 0.0)) is not None:
            if delivery.number - 1 >= series.next:
                return
            self._delivered(delivery, numbered([delivery]), series.refused)

    def _for_one_file(self) -> list[Delivery]:
        """Outputs for one file, which is complete now; none if nothing is published, or at a stop.

        A delivery is in one file as a whole: numbers in the names of files have no gaps.
        """
        found: list[Delivery] = []
        rows, size, position, until = 0, 0, self._taken, 0.0
        while rows < self._sink.rows and size < _FILE_BYTES:
            left_s = until - time.monotonic() if found else threads.IDLE_WAIT_S
            if self._stopping.is_set() or (found and left_s <= 0):
                break
            delivery = self._outbox.next(self._index, position, min(left_s, threads.IDLE_WAIT_S))
            if delivery is None:
                if found:
                    continue
                break
            if not found:
                until = time.monotonic() + self._sink.seconds
            found.append(delivery)
            rows += delivery.outputs.amount
            size, position = size + len(delivery.outputs.data), delivery.position
        return found

    def _write_file(self, series: FileSeries, deliveries: list[Delivery]) -> None:
        from wallaroo.connectors.parquet.arrow import table_of

        outputs = numbered(deliveries)
        rows = {number: unpacked_row(output) for number, output in outputs.items()}
        table, refused = table_of(rows, self._sink.schema)
        series.write(max(outputs) + 1, table, refused)
        self._files += table is not None
        self._delivered(deliveries[-1], outputs, refused)

    def _delivered(
        self, last: Delivery, outputs: dict[int, bytes], refused: dict[int, str]
    ) -> None:
        """Note *outputs*, up to the delivery *last*, as delivered or set aside."""
        letters = [
            self._set_aside(number + 1, outputs[number], reason)
            for number, reason in refused.items()
            if number in outputs
        ]
        self._settle(last.position, letters)

    def _reason(self, error: BaseException) -> str:
        return describe_error(error)


open_sink = ParquetSinkWriter
