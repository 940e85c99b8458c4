"""What the driver is told of publications: everything once, and not too often."""

from __future__ import annotations

from wallaroo.gateway.chunks import reports as module
from wallaroo.gateway.chunks.reports import PublicationReports
from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.wire.chunk_messages import News, news_in
from wallaroo.wire.records import Tally
from wallaroo.wire.task_metrics import TaskMetrics


def publish(reports: PublicationReports, *numbers: int) -> None:
    """Report the publication of chunks of ten messages."""
    chunks = [FinishedChunk(n, 10 * n, [], Tally(), [], began=float(n)) for n in numbers]
    tally = Tally(set_aside=1, metrics=TaskMetrics(arrivals={(0, 0): 10 * len(numbers)}))
    reports.published("run", chunks, tally, numbers[-1] + 0.5)


def told(reports: PublicationReports) -> News:
    frame = reports.take(at_once=True)
    assert frame is not None
    return news_in(frame)


def test_publications_are_told_once_with_their_chunks_and_messages() -> None:
    reports = PublicationReports(None)
    assert reports.take(at_once=True) is None
    publish(reports, 1, 2)
    publish(reports, 3)
    reports.epoch_ended(0.25)
    news = told(reports)
    assert [(one.last, one.chunks, one.messages) for one in news.publications] == [
        (2, 2, 20),
        (3, 1, 10),
    ]
    assert [one.run_s for one in news.publications] == [1.5, 0.5]
    assert news.tally.set_aside == 2
    assert list(news.epochs) == [0.25]
    assert reports.take(at_once=True) is None


def test_what_is_published_soon_after_a_report_waits_for_the_next() -> None:
    reports = PublicationReports(None)
    publish(reports, 1)
    assert reports.take() is not None
    publish(reports, 2)
    reports._reported_at += 3600  # as if it had just been
    assert reports.take() is None
    reports._reported_at -= 3600 + module._EVERY_S
    assert reports.take() is not None
