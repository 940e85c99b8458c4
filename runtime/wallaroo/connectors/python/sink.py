"""Sinks that Python code writes: published outputs in order, numbered, until they are safe.

The code belongs to the application: what it raises is logged with its place, and it gets the same
outputs again after a growing pause.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import structlog

from wallaroo.api.connectors import OutputSink
from wallaroo.connectors.python.resolve import CustomSink
from wallaroo.connectors.threads import SinkThread, described
from wallaroo.gateway.connector import ConnectorContext

log = structlog.get_logger("wallaroo.gateway")


class PythonSinkWriter(SinkThread[CustomSink]):
    """Writes one sink's outputs in a separate thread."""

    WAITS = "a call of its open(), write() or close() has not returned"

    def __init__(self, context: ConnectorContext, index: int, sink: CustomSink) -> None:
        super().__init__(context, index, sink)
        self._numbering = f"{self._outbox.identity}-{sink.name}"
        self._thread.start()

    def _work(self) -> None:
        """Write outputs as they are published, until stopped."""
        writer = self._sink.writer
        writer.open(self._numbering)
        with self._closing(writer):
            while not self._stopping.is_set():
                if (delivery := self._next()) is None:
                    continue
                writer.write(delivery.number - 1, delivery.outputs.cut())
                self._settle(delivery.position)

    @contextlib.contextmanager
    def _closing(self, writer: OutputSink) -> Iterator[None]:
        """Close *writer* at the end; a failure before that is not hidden by one of `close`."""
        try:
            yield
        except BaseException:
            try:
                writer.close()
            except BaseException as error:  # the first failure is the one to report
                log.warning("sink not closed", **self._names(), reason=described(error))
            raise
        writer.close()


open_sink = PythonSinkWriter
