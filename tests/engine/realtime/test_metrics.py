"""Metrics of a real-time query, as the gateway and the driver have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.realtime.harness import (
    PATIENCE_S,
    GatewaySide,
    RunningQuery,
    Store,
    gateway_side,
    submit,
    wait_until_processed,
)
from tests.helpers import KILLING, wait_until
from wallaroo.gateway.chunks.pace import Pace
from wallaroo.metrics import catalogue
from wallaroo.metrics.catalogue import Metric
from wallaroo.metrics.samples import by_labels
from wallaroo.model.application import Application
from wallaroo.testing import load


@pytest.fixture
def application() -> Application:
    """Loaded for each test: pickling needs the classes of the latest load."""
    return load(KILLING, ["--in", "127.0.0.1:0", "--out", "127.0.0.1:1"])


def total(gateway: GatewaySide, metric: Metric) -> float:
    return float(sum(by_labels(gateway.outbox.samples([]), metric).values()))


def test_the_size_of_the_state_is_that_of_the_last_chunk(
    application: Application, tmp_path: Path
) -> None:
    with (
        gateway_side(tmp_path, application, Pace(chunks=1)) as gateway,
        RunningQuery(gateway, application, Store(), tmp_path / "c", 1, 2) as query,
    ):
        for count, key in enumerate([b"a", b"b", b"c", b"d"], 1):  # at once, one after the other
            submit(gateway, application, [("in", key)])
            wait_until_processed(gateway, count)
            assert total(gateway, catalogue.STATE_ENTITIES) == count
        assert total(gateway, catalogue.STATE_BYTES) == 0
        query.feed.finish_epoch()
        submit(gateway, application, [("in", key) for key in (b"a", b"b", b"c", b"d")])
        wait_until_processed(gateway, 8)
        assert total(gateway, catalogue.STATE_BYTES) > 0


def test_the_driver_has_all_figures_when_an_epoch_has_ended(
    application: Application, tmp_path: Path
) -> None:
    with (
        gateway_side(tmp_path, application) as gateway,
        RunningQuery(gateway, application, Store(), tmp_path / "c", 1, 2) as query,
    ):
        for count in range(1, 6):
            submit(gateway, application, [("in", b"a")])
            wait_until_processed(gateway, count)
        query.feed.finish_epoch()
        assert sum(query.tally.metrics.arrivals.values()) == 5
        wait_until(lambda: query.epochs, "the news of the epoch", PATIENCE_S)
        assert [seconds >= 0 for seconds in query.epochs] == [True]
