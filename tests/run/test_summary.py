"""What a driver's log says of publications, every now and then."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from wallaroo.gateway.internal_api.status import GatewayStatus
from wallaroo.run.summary import Summary
from wallaroo.wire.chunk_messages import News, Publication
from wallaroo.wire.records import Tally
from wallaroo.wire.task_metrics import TaskMetrics

GATEWAY = GatewayStatus((), (), 1, 138_000, 0, 12.34, 0, False, 0, 0, 0, 0, 0)
IDLE = GatewayStatus((), (), 1, 0, 0, 0.0, 0, False, 0, 0, 0, 0, 0)


class Driver:
    """What a summary asks of its driver."""

    def __init__(self) -> None:
        self.now = 0.0
        self.gateway: GatewayStatus | None = GATEWAY
        self.summary = Summary(lambda: self.gateway, lambda: self.now)

    def publish(self, messages: int, seconds: float) -> None:
        tally = Tally(metrics=TaskMetrics(arrivals={(0, 0): messages}))
        publication = Publication(1, 1, messages, 0.0, seconds - 0.25, 0.25)
        self.summary.on_published(News(tally, [publication]))

    def reported(self) -> list[Any]:
        with capture_logs() as logs:
            self.summary.report()
        return logs


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_a_minute_of_publications_is_one_line(driver: Driver) -> None:
    for seconds in (1.0, 3.0, 2.0):
        driver.publish(20_000, seconds)
    driver.now = 60.0
    assert driver.reported() == [
        {
            "event": "published",
            "log_level": "info",
            "publications": 3,
            "messages": 60_000,
            "messages_per_s": 1_000,
            "publication_s": 2.0,
            "backlog": 138_000,
            "waited_s": 12.3,
        }
    ]
    driver.publish(600, 7.0)
    driver.now = 120.0
    (line,) = driver.reported()
    assert (line["publications"], line["messages_per_s"], line["publication_s"]) == (1, 10, 7.0)


def test_messages_that_wait_without_a_publication_are_reported(driver: Driver) -> None:
    (line,) = driver.reported()
    assert (line["publications"], line["publication_s"], line["backlog"]) == (0, None, 138_000)


def test_nothing_is_reported_while_nothing_happens(driver: Driver) -> None:
    driver.gateway = IDLE
    assert driver.reported() == []
    driver.publish(0, 0.2)  # the clock closed windows
    assert driver.reported() == []


def test_a_gateway_that_is_away_is_reported_by_what_is_missing(driver: Driver) -> None:
    driver.gateway = None
    driver.publish(10, 0.2)
    (line,) = driver.reported()
    assert (line["messages"], line["backlog"], line["waited_s"]) == (10, None, None)
