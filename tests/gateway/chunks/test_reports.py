"""What the driver is told of publications: everything once, and not too often."""

from __future__ import annotations

from typing import Any, cast

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


class _Driver:
    """In the place of the driver's `Peer`."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.stands = False

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)

    def is_ready(self) -> bool:
        return not self.stands


def told(
    reports: PublicationReports, *, at_once: bool = False, stands: bool = False
) -> News | None:
    """What a driver is told that may stand still."""
    driver = _Driver()
    driver.stands = stands
    reports.tell(cast("Any", driver), at_once=at_once)
    return news_in(driver.sent[0]) if driver.sent else None


def test_publications_are_told_once_with_their_chunks_and_messages() -> None:
    reports = PublicationReports(None)
    assert told(reports, at_once=True) is None
    publish(reports, 1, 2)
    publish(reports, 3)
    reports.epoch_ended(0.25)
    reports.tell(None, at_once=True)  # it is not there
    news = told(reports, at_once=True)
    assert news is not None
    assert [(one.last, one.chunks, one.messages) for one in news.publications] == [
        (2, 2, 20),
        (3, 1, 10),
    ]
    assert [one.run_s for one in news.publications] == [1.5, 0.5]
    assert news.tally.set_aside == 2
    assert list(news.epochs) == [0.25]
    assert told(reports, at_once=True) is None


def test_what_is_published_soon_after_a_report_waits_for_the_next() -> None:
    reports = PublicationReports(None)
    publish(reports, 1)
    assert told(reports) is not None
    publish(reports, 2)
    reports._reported_at += 3600  # as if it had just been
    assert told(reports) is None
    reports._reported_at -= 3600 + module._EVERY_S
    assert told(reports, stands=True) is None
    assert told(reports) is not None
