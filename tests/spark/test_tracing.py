"""A run with OpenTelemetry switched on, and a collector that takes what it tells."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.spark.harness import APPS, Receiver, run, send

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"


class Collector:
    """Takes spans by OTLP over HTTP."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    import gzip

                    body = gzip.decompress(body)
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            for attribute in resource.resource.attributes:
                if attribute.key == "service.name":
                    self.services.add(attribute.value.string_value)
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def called(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


def number(span: Span, name: str) -> int:
    return next(told.value.int_value for told in span.attributes if told.key == name)


def test_what_is_committed_and_sampled_messages_are_told_to_the_collector(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    options = ("--trace-one-in", "100")
    with (
        Receiver("lines") as receiver,
        run(APPS / "word_count", receiver, tmp_path, options=options) as running,
    ):
        send(running.sources[SOURCE], [b"one two"] * 150)
        receiver.wait_for(300)
        running.wait_until_processed()
        assert running.stop() == 0
    assert collector.services == {"Word Count Application"}
    published = {span.span_id: span for span in collector.called("publication")}
    counted = sum(number(span, "wallaroo.messages") for span in published.values())
    assert 0 < counted <= 150  # not all are told
    for phase in ("run", "commit"):
        parents = {span.parent_span_id for span in collector.called(phase)}
        assert parents >= published.keys()
    messages = collector.called("message")
    assert sorted(number(span, "wallaroo.arrival") for span in messages) == [0, 100]
    for message in messages:
        (link,) = message.links
        publication = published[link.span_id]
        assert publication.trace_id == link.trace_id
        assert number(publication, "wallaroo.chunk") == number(message, "wallaroo.chunk")
        parts = [span for span in collector.spans if span.parent_span_id == message.span_id]
        assert [span.name for span in parts] == ["wait", "process", "deliver"]
        assert parts[0].start_time_unix_nano == message.start_time_unix_nano
        assert parts[-1].end_time_unix_nano == message.end_time_unix_nano
