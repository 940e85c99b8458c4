"""Traces of sampled messages, from a source's socket to the sinks'.

Messages move in bulk, and so do the times of one: when it arrived, when its chunk was handed out,
when that was published, and when each sink had taken the outputs of that publication.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.observability.span import PublicationId, Span
from wallaroo.observability.spans import Traces
from wallaroo.wire.chunk_messages import Publication
from wallaroo.wire.records import TICK_SOURCE, Block

_OF_A_PUBLICATION = 20
"""Messages of one publication that are traced at most."""
_TRACED_PUBLICATIONS = 100
"""Publications whose outputs are waited for; while a receiver is away, the oldest are dropped."""


class _Sample(NamedTuple):
    number: int
    source: str
    arrived_ns: int
    begun_ns: int


class _Begun(NamedTuple):
    """Messages that have begun to be processed."""

    end: int
    """Offset behind the last of them."""
    samples: Sequence[_Sample]
    """Those that are traced."""


@dataclass
class _Traced:
    """A publication with traced messages."""

    id: PublicationId
    published_ns: int
    samples: Sequence[_Sample]
    waiting: dict[int, int]
    """Position in the outbox of its last output, by sink, of sinks that have not taken it yet."""
    taken_ns: dict[int, int] = field(default_factory=dict)
    """When sinks had taken all of its outputs."""

    def take(self, sink: int, position: int, at_ns: int) -> None:
        """Note that *sink* has had all outputs up to *position* since *at_ns*."""
        if self.waiting.get(sink, position + 1) <= position:
            del self.waiting[sink]
            self.taken_ns[sink] = max(at_ns, self.published_ns)


class MessageTraces:
    """Traces one message in *one_in*.

    Args:
        traces: Where spans go.
        outbox: Where outputs leave.
        sources: Names of the sources by index.
        sinks: Names of the sinks by index.
        one_in: Messages whose offset is divisible by this are traced.
    """

    def __init__(
        self,
        traces: Traces,
        outbox: Outbox,
        sources: Sequence[str],
        sinks: Sequence[str],
        one_in: int,
    ) -> None:
        self._traces = traces
        self._outbox = outbox
        self._sources, self._sinks = sources, sinks
        self._one_in = one_in
        self._begun: list[_Begun] = []
        """Chunks that are not published."""
        self._positions: Mapping[int, int] = {}
        """Positions of the last outputs of the publications so far, by sink."""
        self._taken: dict[int, tuple[int, int]] = {}
        """By sink, the position up to which it has all, and since when."""
        self._published: deque[_Traced] = deque(maxlen=_TRACED_PUBLICATIONS)
        self._lock = threading.Lock()
        outbox.on_delivered = self._delivered

    def begin(self, blocks: Sequence[Block]) -> None:
        """Note that a chunk of *blocks* is handed out."""
        start, end = blocks[0].first, blocks[-1].end
        samples = list(itertools.islice(self._samples(blocks, time.time_ns()), _OF_A_PUBLICATION))
        with self._lock:
            self._begun = [one for one in self._begun if one.end <= start]  # in vain, if later
            self._begun.append(_Begun(end, samples))

    def published(self, publication: PublicationId, end: int) -> bool:
        """Note that *publication*, which ends at offset *end*, is on disk.

        Returns:
            Whether some of its messages are traced.
        """
        now_ns = time.time_ns()
        with self._lock:
            begun = [one for one in self._begun if one.end <= end]
            self._begun = [one for one in self._begun if one.end > end]
        before, self._positions = self._positions, dict(self._outbox.last_positions)
        waiting = dict(self._positions.items() - before.items())
        samples = [sample for one in begun for sample in one.samples][:_OF_A_PUBLICATION]
        if samples:
            with self._lock:
                self._published.append(_Traced(publication, now_ns, samples, waiting))
                for sink, (position, at_ns) in self._taken.items():
                    self._published[-1].take(sink, position, at_ns)
                self._report_finished()
        return bool(samples)

    def publication(self, number: PublicationId, publication: Publication) -> None:
        """Send a span of *publication*, with its parts."""
        started_ns = int(publication.started * 1e9)
        reported_ns = started_ns + int(publication.run_s * 1e9)
        end_ns = reported_ns + int(publication.commit_s * 1e9)
        attributes = {
            "wallaroo.chunk": publication.last,
            "wallaroo.chunks": publication.chunks,
            "wallaroo.messages": publication.messages,
        }
        parts = [Span("run", started_ns, reported_ns), Span("commit", reported_ns, end_ns)]
        with self._lock:
            whole = Span("publication", started_ns, end_ns, attributes)
            self._traces.export(whole, parts, publication=number)

    def close(self) -> None:
        """Send the remaining traces."""
        self._traces.close()

    def _delivered(self, sink: int, position: int) -> None:
        now_ns = time.time_ns()
        with self._lock:
            self._taken[sink] = (position, now_ns)
            for traced in self._published:
                traced.take(sink, position, now_ns)
            self._report_finished()

    def _samples(self, blocks: Sequence[Block], begun_ns: int) -> Iterator[_Sample]:
        for block in blocks:
            if block.source == TICK_SOURCE:
                continue
            first = -(-block.first // self._one_in) * self._one_in
            for number in range(first, block.end, self._one_in):
                yield _Sample(number, self._sources[block.source], block.arrived_ns, begun_ns)

    def _report_finished(self) -> None:
        for traced in [traced for traced in self._published if not traced.waiting]:
            self._published.remove(traced)
            for sample in traced.samples:
                self._report(traced, sample)

    def _report(self, traced: _Traced, sample: _Sample) -> None:
        end_ns = max([traced.published_ns, *traced.taken_ns.values()])
        whole = Span(
            "message",
            sample.arrived_ns,
            end_ns,
            {
                "wallaroo.source": sample.source,
                "wallaroo.arrival": sample.number,
                "wallaroo.chunk": traced.id.number,
            },
        )
        parts = [
            Span("wait", sample.arrived_ns, sample.begun_ns),
            Span("process", sample.begun_ns, traced.published_ns),
        ]
        for sink, taken_ns in traced.taken_ns.items():
            named = {"wallaroo.sink": self._sinks[sink]}
            parts.append(Span("deliver", traced.published_ns, taken_ns, named))
        self._traces.export(whole, parts, through=traced.id)
