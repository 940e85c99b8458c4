"""The report of a gateway on itself, collected from its parts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from wallaroo.gateway.connector import Listening, Reporting, SinkConnector
from wallaroo.gateway.connectors import SourceConnectors
from wallaroo.gateway.internal_api.status import GatewayStatus, SinkStatus, SourceStatus
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.log.kept import KeptSegments
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.tables import Tables
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Sample
from wallaroo.model.application import Application
from wallaroo.model.endpoints import Source

_LOOK_S = 1.0
"""Seconds after which it is looked again whether all tables are read."""
_LOOKS_PER_LINE = 10
"""Looks for each line of the log about a table that sources wait for."""

log = structlog.get_logger("wallaroo.gateway")


class Monitor:
    """Collects status and metrics.

    Args:
        application: Its sources and sinks are reported in order.
        journal: The journal.
        outbox: The outbox.
        sources: The connectors of the sources, which have started.
        sinks: The connectors of the sinks, by index.
        tables: The tables that sources wait for.
        archiving: The segments that wait for the archive; None if there is none.
    """

    def __init__(
        self,
        application: Application,
        journal: Journal,
        outbox: Outbox,
        sources: SourceConnectors,
        sinks: Sequence[SinkConnector],
        tables: Tables,
        archiving: KeptSegments | None = None,
    ) -> None:
        self._application = application
        self._journal = journal
        self._outbox = outbox
        self._sources = sources
        self._sinks = sinks
        self._tables = tables
        self._archiving = archiving

    def status(self) -> GatewayStatus:
        """What the gateway has done and holds now."""
        backlog, waited_s = self._journal.waiting()
        sources = tuple(
            self._source_status(index, source, backlog.get(index, 0))
            for index, source in enumerate(self._application.sources)
        )
        sinks = tuple(
            SinkStatus(
                sink.name,
                connector.where if isinstance(connector, Listening) else sink.where,
                connector.problem,
            )
            for sink, connector in zip(self._application.sinks, self._sinks, strict=True)
        )
        # In this order, messages are at least once in backlog, undelivered and counters.
        total_backlog, bytes_ = self._journal.backlog, self._journal.disk_bytes
        waits_for_time, undelivered = (
            self._journal.alarm.waits_for_outputs,
            self._outbox.undelivered,
        )
        counters = self._outbox.counters()
        return GatewayStatus(
            sources=sources,
            sinks=sinks,
            connections=self._sources.connections,
            backlog=total_backlog,
            backlog_bytes=bytes_,
            waited_s=waited_s,
            undelivered=undelivered,
            waits_for_time=waits_for_time,
            published=counters.get("published", 0),
            delivered=counters.get("delivered", 0),
            set_aside=counters.get("set_aside", 0),
            unknown_key=counters.get("unknown_key", 0),
            late=counters.get("late", 0),
            dead_letters=counters["letters"],
            dead_letters_gone=counters["letters_gone"],
        )

    def samples(self) -> list[Sample]:
        """The same as metrics, with those of the epochs that have been published."""
        status, application = self.status(), self._application
        pipelines = [
            [pipeline.name for pipeline in application.pipelines if pipeline.source is source]
            for source in application.sources
        ]
        samples = [
            Sample(catalogue.BACKLOG_BYTES, (), status.backlog_bytes),
            Sample(catalogue.BACKLOG_SECONDS, (), status.waited_s),
            Sample(catalogue.CONNECTIONS, (), status.connections),
        ]
        for source in status.sources:
            samples.append(Sample(catalogue.SOURCE_MESSAGES, (source.name,), source.accepted))
            samples.append(Sample(catalogue.BACKLOG_MESSAGES, (source.name,), source.backlog))
        for index, sink in enumerate(application.sinks):
            delivered, waiting = self._outbox.of_sink(index)
            samples.append(Sample(catalogue.SINK_MESSAGES, (sink.name,), delivered))
            samples.append(Sample(catalogue.SINK_WAITING, (sink.name,), waiting))
        if self._archiving is not None:
            samples.append(Sample(catalogue.ARCHIVE_WAITING, (), self._archiving.waiting))
            samples.append(Sample(catalogue.ARCHIVE_LOST, (), self._archiving.lost))
        samples += self._sources.samples()
        for connector in self._sinks:
            if isinstance(connector, Reporting):
                samples += connector.samples()
        return samples + self._outbox.samples(pipelines)

    async def tell_of_tables(self) -> None:
        """Log what sources wait for, from time to time, until all tables are read."""
        looks = 0
        while self._tables.awaited():
            await asyncio.sleep(_LOOK_S)
            if looks % _LOOKS_PER_LINE == 0:
                awaited = self._tables.awaited()
                for source in self.status().sources:
                    if source.name in awaited:
                        self._tell_of(source, awaited[source.name])
            looks += 1

    def _tell_of(self, table: SourceStatus, sources: Sequence[str]) -> None:
        left, reason = self._tables.left(table.name), table.problem
        log.info(
            "waiting for the table",
            table=table.name,
            reads=table.where,
            sources=sources,
            accepted=table.accepted,
            **({} if left is None else {"left": left}),
            **({} if reason is None else {"reason": reason}),
        )

    def _source_status(self, index: int, source: Source, backlog: int) -> SourceStatus:
        state = self._sources.status(index)
        return SourceStatus(
            source.name,
            state.where,
            self._journal.accepted.get(index, 0),
            backlog,
            state.ended,
            state.failures,
            state.problem,
            self._tables.reason(index, lambda table: self._sources.status(table).problem),
        )
