"""What is told to OpenTelemetry, and whether: batches with their phases, and sampled messages.

It is on where OpenTelemetry's own environment variables say where spans go. Without them nothing of
it is even imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import structlog

if TYPE_CHECKING:
    from wallaroo.observability.spans import Traces

ONE_IN = 1000
"""One message in so many is followed, unless another number is asked for: a few a second under
load."""
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SPOKEN = "http/protobuf"

log = structlog.get_logger("wallaroo")


class Span(NamedTuple):
    """Something that took its time."""

    name: str
    start_ns: int
    """Wall clock at its start, in nanoseconds since the epoch."""
    end_ns: int
    """The same at its end."""
    attributes: Mapping[str, str | int] = {}
    """What else there is to tell of it."""


class BatchId(NamedTuple):
    """A batch, by a name that driver and gateway know."""

    run: str
    """Name of the query that numbers the batches."""
    number: int
    """Its number."""


def traces_for(application: str) -> Traces | None:
    """Where spans of *application* go; None where nobody has asked for them.

    Example:
        >>> traces_for("Votes") is None
        True
    """
    asked = os.environ
    if not any(asked.get(name) for name in _ENDPOINTS):
        return None
    if asked.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if asked.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return None
    protocol = next((asked[name] for name in _PROTOCOLS if asked.get(name)), _SPOKEN)
    if protocol != _SPOKEN:
        log.warning("no tracing", reason=f"OTLP over {protocol} is asked for, and not {_SPOKEN}")
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        from wallaroo.observability.spans import Traces
    except ImportError as error:
        log.warning("no tracing", reason=f"install wallaroo[tracing]: {error}")
        return None
    return Traces(OTLPSpanExporter(), application)
