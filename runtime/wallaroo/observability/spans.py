"""Spans of what has happened, for OpenTelemetry: made when it is over, and sent by and by."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from wallaroo.observability.tracing import BatchId, Span


class Traces:
    """Tells of spans.

    Args:
        exporter: Where they go, in a thread of its own.
        application: Name of the application: the service, where the environment names no other.
    """

    def __init__(self, exporter: SpanExporter, application: str) -> None:
        named = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: application}
        self._ids = _Ids()
        self._provider = TracerProvider(
            resource=Resource.create(named), id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("wallaroo")

    def tell(
        self,
        whole: Span,
        parts: Iterable[Span],
        *,
        batch: BatchId | None = None,
        through: BatchId | None = None,
    ) -> None:
        """Tell of *whole*, and of the *parts* that it is made of; from one thread at a time.

        Args:
            whole: The span.
            parts: Its children.
            batch: The batch that it is.
            through: The batch that it went through, to which it gets a link.
        """
        if batch is not None:
            self._ids.coming = _context(batch)
        links = [] if through is None else [trace.Link(_context(through))]
        root = self._tracer.start_span(
            whole.name, attributes=whole.attributes, links=links, start_time=whole.start_ns
        )
        inside = trace.set_span_in_context(root)
        for part in parts:
            child = self._tracer.start_span(
                part.name, inside, attributes=part.attributes, start_time=part.start_ns
            )
            child.end(part.end_ns)
        root.end(whole.end_ns)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


class _Ids(RandomIdGenerator):
    """Random ids, but for the one that is coming: others may have a link to it."""

    def __init__(self) -> None:
        self.coming: trace.SpanContext | None = None

    def generate_trace_id(self) -> int:
        return super().generate_trace_id() if self.coming is None else self.coming.trace_id

    def generate_span_id(self) -> int:
        coming, self.coming = self.coming, None
        return super().generate_span_id() if coming is None else coming.span_id


def _context(batch: BatchId) -> trace.SpanContext:
    """Ids that whoever knows the batch comes to."""
    digest = hashlib.sha256(f"{batch.run} {batch.number}".encode()).digest()
    return trace.SpanContext(
        int.from_bytes(digest[:16]),
        int.from_bytes(digest[16:24]),
        is_remote=True,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
    )
