"""Tracing with OpenTelemetry: publications with their phases, and sampled messages.

Tracing is enabled by OpenTelemetry's environment variables for the endpoint. Without them,
OpenTelemetry is not imported.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from wallaroo.observability.spans import Traces

ONE_IN = 1000
"""By default, one in this number of messages is traced: a few per second under load."""
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SUPPORTED_PROTOCOL = "http/protobuf"

log = structlog.get_logger("wallaroo")


def traces_for(application: str) -> Traces | None:
    """Return the exporter for spans of *application*; None if tracing is disabled.

    Example:
        >>> traces_for("Votes") is None
        True
    """
    env = os.environ
    if not any(env.get(name) for name in _ENDPOINTS):
        return None
    if env.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if env.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return None
    protocol = next((env[name] for name in _PROTOCOLS if env.get(name)), _SUPPORTED_PROTOCOL)
    if protocol != _SUPPORTED_PROTOCOL:
        reason = f"OTLP over {protocol} is not supported; use {_SUPPORTED_PROTOCOL}"
        log.warning("no tracing", reason=reason)
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        from wallaroo.observability.spans import Traces
    except ImportError as error:
        log.warning("no tracing", reason=f"install wallaroo[tracing]: {error}")
        return None
    return Traces(OTLPSpanExporter(), application)
