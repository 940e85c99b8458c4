"""Reports of publications: to the driver, which makes metrics of them, and as traces."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wallaroo.gateway.chunks.peers import Peer
from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.observability.span import PublicationId
from wallaroo.wire.chunk_messages import News, Publication, pack_news
from wallaroo.wire.records import Block, Tally

if TYPE_CHECKING:
    from wallaroo.gateway.traces import MessageTraces

_EVERY_S = 0.1
"""Time between two reports to the driver, and between two spans of publications of which no
message is traced."""


class PublicationReports:
    """Gathers what was published since the last report.

    Args:
        traces: Traces sampled messages; None for no traces.
    """

    def __init__(self, traces: MessageTraces | None) -> None:
        self._traces = traces
        self._tally = Tally()
        self._publications: list[Publication] = []
        self._epochs: list[float] = []
        self._reported_at = self._traced_at = 0.0

    def handed_out(self, blocks: Sequence[Block]) -> None:
        """Note that *blocks* are handed out."""
        if self._traces is not None:
            self._traces.begin(blocks)

    def published(
        self, query: str, chunks: Sequence[FinishedChunk], tally: Tally, finished: float
    ) -> None:
        """Note that *chunks* have just been published.

        Args:
            query: Name of the query.
            chunks: The chunks.
            tally: What was reported of them.
            finished: When all had been reported, by the clock that does not run backwards.
        """
        now, began, last = time.monotonic(), chunks[0].began, chunks[-1]
        publication = Publication(
            last.number,
            len(chunks),
            sum(tally.metrics.arrivals.values()),
            time.time() - (now - began),
            finished - began,
            now - finished,
        )
        self._tally.merge(tally)
        self._publications.append(publication)
        if self._traces is None:
            return
        number = PublicationId(query, last.number)
        if self._traces.published(number, last.end) or now - self._traced_at > _EVERY_S:
            self._traced_at = now
            self._traces.publication(number, publication)

    def epoch_ended(self, stood_s: float) -> None:
        """Note that an epoch has ended, and that no chunk was handed out for *stood_s* seconds."""
        self._epochs.append(stood_s)

    def tell(self, driver: Peer | None, *, at_once: bool = False) -> None:
        """Tell the *driver*, if it is there, what there is to report and it is time, or *at_once*.

        A driver that has stopped reading is told only *at_once*.
        """
        if driver is None or not (self._publications or self._epochs):
            return
        if not at_once and (
            time.monotonic() - self._reported_at < _EVERY_S or not driver.is_ready()
        ):
            return
        news = News(self._tally, self._publications, self._epochs)
        self._tally, self._publications, self._epochs = Tally(), [], []
        self._reported_at = time.monotonic()
        driver.send(pack_news(news))
