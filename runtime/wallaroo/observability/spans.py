"""Exports spans to OpenTelemetry, which are created once they have ended."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from wallaroo.observability.span import PublicationId, Span


class Traces:
    """Exports spans.

    Args:
        exporter: Exporter, which runs in a separate thread.
        application: Name of the application; the service name unless the environment sets it.
    """

    def __init__(self, exporter: SpanExporter, application: str) -> None:
        attributes = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: application}
        self._ids = _Ids()
        self._provider = TracerProvider(
            resource=Resource.create(attributes), id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("wallaroo")

    def export(
        self,
        span: Span,
        children: Iterable[Span],
        *,
        publication: PublicationId | None = None,
        through: PublicationId | None = None,
    ) -> None:
        """Export *span* with its *children*; not thread-safe.

        Args:
            span: The root span.
            children: Its child spans.
            publication: The publication that it represents, if any.
            through: The publication that it was part of, to which it is linked, if any.
        """
        if publication is not None:
            self._ids.next = _context(publication)
        links = [] if through is None else [trace.Link(_context(through))]
        root = self._tracer.start_span(
            span.name, attributes=span.attributes, links=links, start_time=span.start_ns
        )
        context = trace.set_span_in_context(root)
        for one in children:
            child = self._tracer.start_span(
                one.name, context, attributes=one.attributes, start_time=one.start_ns
            )
            child.end(one.end_ns)
        root.end(span.end_ns)

    def close(self) -> None:
        """Export the remaining spans."""
        self._provider.shutdown()


class _Ids(RandomIdGenerator):
    """Generates random ids, unless `next` is set, so that other spans can link to that one."""

    def __init__(self) -> None:
        self.next: trace.SpanContext | None = None

    def generate_trace_id(self) -> int:
        return super().generate_trace_id() if self.next is None else self.next.trace_id

    def generate_span_id(self) -> int:
        context, self.next = self.next, None
        return super().generate_span_id() if context is None else context.span_id


def _context(publication: PublicationId) -> trace.SpanContext:
    """Derive ids from *publication*, identically whenever they are needed."""
    digest = hashlib.sha256(f"{publication.run} {publication.number}".encode()).digest()
    return trace.SpanContext(
        int.from_bytes(digest[:16]),
        int.from_bytes(digest[16:24]),
        is_remote=True,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
    )
