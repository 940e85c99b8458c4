"""What the autoscaler of a driver reads, writes and tells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from wallaroo.errors import RuntimeFailure
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Sample
from wallaroo.run.kubernetes.autoscaler import Autoscaler
from wallaroo.run.kubernetes.scaling_rule import ScalingSettings
from wallaroo.wire.chunk_messages import News, news_in, pack_news
from wallaroo.wire.records import Tally
from wallaroo.wire.task_metrics import TaskMetrics

SCALING = ScalingSettings(minimum=1, maximum=4, up_after_s=10.0, down_after_s=20.0)


class Driver:
    """A driver, its gateway, and the ConfigMap: a thousand messages a second are 2 cores."""

    def __init__(self) -> None:
        self.now = 0.0
        self.accepted = self.backlog = 0
        self.scaling: ScalingSettings | None = SCALING
        self.count = 1
        self.stands: str | None = None
        self.is_paused = False
        self.refusal: str | None = None
        self.autoscaler = Autoscaler(
            self.samples,
            self,  # type: ignore[arg-type]
            lambda: self.is_paused,
            self,  # type: ignore[arg-type]
            1.0,
            lambda: self.now,
        )

    def samples(self) -> list[Sample]:
        if self.refusal == "gateway":
            raise RuntimeFailure(self.refusal)
        return [
            Sample(catalogue.SOURCE_MESSAGES, ("votes",), self.accepted),
            Sample(catalogue.BACKLOG_MESSAGES, ("votes",), self.backlog),
            Sample(catalogue.KAFKA_LAG, ("votes", "t", "0"), 1000.0),
            Sample(catalogue.CONNECTIONS, (), 7.0),
        ]

    def workers(self) -> tuple[int, int]:
        return self.count, self.count

    def interruption(self) -> str | None:
        return self.stands

    def write(self, number: int) -> None:
        if self.refusal is not None:
            raise RuntimeFailure(self.refusal)
        self.count = number

    def run(self, seconds: int, rate: int) -> list[Any]:
        """Run with so many messages a second; returns the events."""
        with capture_logs() as events:
            for _ in range(seconds // 5):
                self.now += 5.0
                self.accepted += 5 * rate
                seconds_used = self.accepted * 0.002
                processors = {("one", -1): (seconds_used, 1.0), ("one", 0): (seconds_used, 2.0)}
                news = News(Tally(metrics=TaskMetrics(processors=processors)))
                self.autoscaler.on_published(news_in(pack_news(news)))
                self.autoscaler.look()
        return events


def test_workers_follow_the_load_and_the_log_says_why() -> None:
    driver = Driver()
    (up,) = driver.run(60, 1000)
    assert (up["event"], up["workers"], up["wanted"], driver.count) == ("workers change", 1, 4, 4)
    assert up["reason"] == (
        "1,000 messages/s and 1,000 waiting need 2.11 cores: 4 workers of 1 at 70%, for 10 s"
    )
    status = driver.autoscaler.status()
    assert status is not None
    assert (status["needed"], status["problem"]) == (4, None)
    assert status["load"]["arriving_per_s"] == 1000
    driver.run(120, 10)
    assert driver.count == 1
    samples = {sample.metric: sample.value for sample in driver.autoscaler.samples()}
    assert samples[catalogue.WORKERS_NEEDED] == 1
    assert samples[catalogue.WORKERS_USED_CORES] == pytest.approx(0.02)


def test_a_report_is_told_once_and_changes_nothing() -> None:
    driver = Driver()
    driver.scaling = replace(SCALING, reports_only=True)
    events = driver.run(200, 1000)
    assert [event["event"] for event in events] == ["workers would change"]
    assert driver.count == 1
    status = driver.autoscaler.status()
    assert status is not None
    assert status["mode"] == "report"


def test_a_fixed_number_stays_and_nothing_is_told() -> None:
    driver = Driver()
    driver.scaling = None
    assert driver.run(60, 1000) == []
    assert driver.autoscaler.status() is None
    assert driver.autoscaler.samples() == []
    driver.scaling = SCALING  # by an upgrade
    driver.run(60, 1000)
    assert driver.count == 4


def test_what_prevents_a_change_is_told() -> None:
    driver = Driver()
    driver.refusal = "the ConfigMap cannot be written"
    events = driver.run(30, 1000)
    assert {(event["event"], event["reason"]) for event in events} == {
        ("workers are not changed", "the ConfigMap cannot be written")
    }
    status = driver.autoscaler.status()
    assert status is not None
    assert status["problem"] == "the ConfigMap cannot be written"
    driver.refusal = None
    driver.run(60, 1000)
    assert driver.count == 4
    status = driver.autoscaler.status()
    assert status is not None
    assert status["problem"] is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"stands": "the query is started anew"}, "the query does not run"),
        ({"is_paused": True}, "the query does not run"),
        ({"refusal": "gateway"}, "the gateway does not respond"),
    ],
)
def test_where_nothing_runs_nothing_is_decided(change: dict[str, Any], reason: str) -> None:
    driver = Driver()
    for name, value in change.items():
        setattr(driver, name, value)
    assert driver.run(60, 1000) == []
    status = driver.autoscaler.status()
    assert status is not None
    assert (status["reason"], status["needed"]) == (reason, None)
    assert driver.autoscaler.samples() == []
