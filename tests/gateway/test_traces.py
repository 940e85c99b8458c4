"""Messages that are followed, through a real journal and a real outbox."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.gateway.harness import finished, outputs, publish
from tests.helpers import PATIENCE_S
from wallaroo.gateway.store import Store
from wallaroo.gateway.traces import MessageTraces
from wallaroo.observability.span import PublicationId
from wallaroo.observability.spans import Traces
from wallaroo.wire.chunk_messages import Publication


class Followed:
    """Journal and outbox of two sources and two sinks; every tenth message is followed."""

    def __init__(self, directory: Path) -> None:
        self.store = Store(directory)
        self.journal, self.outbox = self.store.journal, self.store.outbox
        self._exporter = InMemorySpanExporter()
        self._chunk = 0
        self.traces = MessageTraces(
            Traces(self._exporter, "app"),
            self.outbox,
            ["one", "two"],
            ["left", "right"],
            10,
        )

    def accept(self, source: int, count: int) -> None:
        before = self.journal.accepted.get(source, 0)
        self.journal.submit(source, count, b"x" * count)
        assert self.journal.wait_accepted(source, before + count, PATIENCE_S)

    def begin(self, start: int, end: int) -> None:
        """Hand out a chunk of the offsets."""
        blocks = []
        for block in self.journal.read(0, self.journal.end):  # a chunk may begin in mid block
            first, last = max(block.first, start), min(block.end, end)
            if first < last:
                blocks.append(block._replace(first=first, messages=last - first))
        self.traces.begin(blocks)

    def publish(
        self, start: int, end: int, sinks: Sequence[int], quick: Sequence[int] = ()
    ) -> PublicationId:
        """Publish a chunk of the offsets, with an output for each of *sinks*.

        Those of *quick* take it before it is known that it is published.
        """
        self.begin(start, end)
        self._chunk += 1
        made = [outputs(b"out", to=sink) for sink in sinks]
        publish(self.outbox, finished(self._chunk, *made))
        for sink in quick:
            self.deliver(sink)
        publication = PublicationId("run", self._chunk)
        self.traces.published(publication, end)
        return publication

    def deliver(self, sink: int) -> None:
        """Let *sink* take the next output."""
        delivery = self.outbox.next(sink, 0, PATIENCE_S)
        assert delivery is not None
        self.outbox.delivered(sink, delivery.position)

    def told(self) -> tuple[ReadableSpan, ...]:
        """All spans; nothing is followed any more."""
        self.traces.close()
        return self._exporter.get_finished_spans()


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    followed = Followed(tmp_path)
    yield followed
    followed.store.close()


def names(spans: Sequence[ReadableSpan]) -> list[str]:
    return [span.name for span in spans]


def test_a_message_is_followed_until_every_sink_has_taken_the_outputs_of_its_chunk(
    followed: Followed,
) -> None:
    followed.accept(0, 4)
    followed.accept(1, 12)
    publication = followed.publish(0, 16, sinks=[0, 1])
    followed.deliver(1)
    followed.deliver(0)
    told = followed.told()
    assert names(told) == ["wait", "process", "deliver", "deliver", "message"] * 2
    first, second = told[:5], told[5:]
    for spans, source, number in ((first, "one", 0), (second, "two", 10)):
        wait, process, right, left, message = spans
        assert message.attributes == {
            "wallaroo.source": source,
            "wallaroo.arrival": number,
            "wallaroo.chunk": publication.number,
        }
        assert right.attributes == {"wallaroo.sink": "right"}
        assert left.attributes == {"wallaroo.sink": "left"}
        assert (message.start_time, wait.end_time) == (wait.start_time, process.start_time)
        assert process.end_time == left.start_time == right.start_time
        assert (right.end_time or 0) <= (left.end_time or 0)
        assert left.end_time == message.end_time
        assert len(message.links) == 1


def test_a_sink_that_is_quick_is_told_of_too(followed: Followed) -> None:
    followed.accept(0, 1)
    followed.publish(0, 1, sinks=[0], quick=[0])
    assert names(followed.told()) == ["wait", "process", "deliver", "message"]


def test_a_chunk_without_outputs_ends_when_it_is_published(followed: Followed) -> None:
    followed.accept(0, 1)
    followed.publish(0, 1, sinks=[0])
    followed.accept(0, 10)
    followed.publish(1, 11, sinks=[])  # the output of the first one waits, and is not waited for
    assert names(followed.told()) == ["wait", "process", "message"]


def test_messages_between_are_not_followed(followed: Followed) -> None:
    followed.accept(0, 10)
    followed.publish(1, 10, sinks=[0])
    followed.deliver(0)
    assert not followed.told()


def test_few_messages_of_a_large_publication_are_followed(followed: Followed) -> None:
    followed.accept(0, 5_000)
    followed.publish(0, 5_000, sinks=[])
    assert names(followed.told()).count("message") == 20


def test_a_message_of_a_publication_waits_for_its_own_chunk(followed: Followed) -> None:
    followed.accept(0, 30)
    for start in (0, 10, 20):
        followed.begin(start, start + 10)
    assert followed.traces.published(PublicationId("run", 2), 20)
    publication = Publication(2, 2, 20, 1.0, 0.5, 0.25)
    followed.traces.publication(PublicationId("run", 2), publication)
    told = {span.name: span for span in followed.told()}
    (*_, whole) = [span for span in told.values() if span.name == "publication"]
    assert whole.attributes == {
        "wallaroo.chunk": 2,
        "wallaroo.chunks": 2,
        "wallaroo.messages": 20,
    }
    assert (whole.start_time, whole.end_time) == (1_000_000_000, 1_750_000_000)
    assert told["commit"].start_time == told["run"].end_time == 1_500_000_000
    (link,) = told["message"].links
    assert whole.context is not None
    assert (link.context.trace_id, link.context.span_id) == (
        whole.context.trace_id,
        whole.context.span_id,
    )


def test_a_chunk_that_was_cut_off_is_followed_as_it_is_run_again(followed: Followed) -> None:
    followed.accept(0, 20)
    followed.begin(0, 10)
    followed.begin(10, 20)
    followed.begin(0, 20)  # by the next run, in one chunk
    assert followed.traces.published(PublicationId("run", 1), 20)
    assert names(followed.told()).count("message") == 2


def test_a_publication_without_a_traced_message_says_so(followed: Followed) -> None:
    followed.accept(0, 10)
    followed.begin(1, 10)
    assert not followed.traces.published(PublicationId("run", 1), 10)
