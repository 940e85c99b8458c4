"""A pause holds the engine, is told once, and cannot be changed while the run stops."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from wallaroo.engine.realtime.pausing import Pause
from wallaroo.errors import RuntimeFailure
from wallaroo.metrics import catalogue


class Engine:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def hold(self) -> None:
        self.told.append("hold")

    def release(self) -> None:
        self.told.append("release")


@pytest.fixture
def engine() -> Any:
    return Engine()


def test_it_holds_and_releases_the_engine_once_each(engine: Any) -> None:
    pause = Pause(engine)
    assert pause.since is None
    assert pause.sample() == (catalogue.PAUSED, (), 0)
    with capture_logs() as logged:
        assert not pause.resume("127.0.0.1")
        assert pause.pause("127.0.0.1")
        assert pause.sample() == (catalogue.PAUSED, (), 1)
        since = pause.since
        assert not pause.pause("10.0.0.9")
        assert pause.since == since
        assert pause.resume("10.0.0.9")
    assert pause.since is None
    assert engine.told == ["hold", "release"]
    told = [(event["event"], event["log_level"], event["by"]) for event in logged]
    assert told == [("paused", "warning", "127.0.0.1"), ("resumed", "info", "10.0.0.9")]


@pytest.mark.parametrize("paused", [False, True])
def test_a_run_that_stops_stays_as_it_is(engine: Any, paused: bool) -> None:
    pause = Pause(engine)
    if paused:
        pause.pause("127.0.0.1")
    assert pause.close() == paused
    for change in (pause.pause, pause.resume):
        with pytest.raises(RuntimeFailure, match="the run is stopping"):
            change("127.0.0.1")
    assert engine.told == ["hold"] * paused
