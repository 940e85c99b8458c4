"""Whether spans are told, and what a span that is told looks like."""

from __future__ import annotations

import sys

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from wallaroo.observability.span import PublicationId, Span
from wallaroo.observability.spans import Traces
from wallaroo.observability.tracing import traces_for

SECOND = 10**9


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def test_a_span_has_its_time_its_parts_and_its_attributes(exporter: InMemorySpanExporter) -> None:
    traces = Traces(exporter, "Votes")
    whole = Span("batch", SECOND, 4 * SECOND, {"wallaroo.batch": 7})
    traces.export(whole, [Span("plan", SECOND, 2 * SECOND), Span("run", 2 * SECOND, 4 * SECOND)])
    traces.close()
    plan, run, batch = exporter.get_finished_spans()
    assert [span.name for span in (plan, run, batch)] == ["plan", "run", "batch"]
    assert (batch.start_time, batch.end_time) == (SECOND, 4 * SECOND)
    assert (run.start_time, run.end_time) == (2 * SECOND, 4 * SECOND)
    assert batch.attributes == {"wallaroo.batch": 7}
    assert batch.parent is None
    for part in (plan, run):
        assert part.parent is not None
        assert part.parent.span_id == batch.context.span_id
        assert part.context.trace_id == batch.context.trace_id
    assert batch.resource.attributes["service.name"] == "Votes"


def test_what_went_through_a_batch_has_a_link_to_it_from_any_process(
    exporter: InMemorySpanExporter,
) -> None:
    here, there = Traces(exporter, "Votes"), InMemorySpanExporter()
    elsewhere = Traces(there, "Votes")
    for number in (1, 2):
        here.export(Span("batch", 0, 1), [], publication=PublicationId("run", number))
    elsewhere.export(Span("message", 0, 1), [], through=PublicationId("run", 2))
    here.close()
    elsewhere.close()
    first, second = exporter.get_finished_spans()
    (message,) = there.get_finished_spans()
    (link,) = message.links
    assert link.context.trace_id == second.context.trace_id != first.context.trace_id
    assert link.context.span_id == second.context.span_id
    assert message.context.trace_id != second.context.trace_id


def test_the_environment_names_the_service(
    exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "ballots")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    traces = Traces(exporter, "Votes")
    traces.export(Span("batch", 0, 1), [])
    traces.close()
    (span,) = exporter.get_finished_spans()
    assert span.resource.attributes["service.name"] == "ballots"
    assert span.resource.attributes["deployment.environment"] == "test"


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:1", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:1", "OTEL_TRACES_EXPORTER": "none"}, False),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            False,
        ),
    ],
)
def test_the_environment_says_whether_spans_are_told(
    environment: dict[str, str], told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    traces = traces_for("Votes")
    assert (traces is not None) == told
    if traces is not None:
        traces.close()


def test_without_the_packages_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    assert traces_for("Votes") is None
    told = capsys.readouterr()
    assert "install wallaroo[tracing]" in told.out + told.err
