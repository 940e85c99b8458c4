"""Pausing and resuming over HTTP: who may, and what is answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dashboard.feed import START, Feed, serving
from tests.dashboard.viewer import Answer, Viewer
from tests.helpers import wait_until

TOKEN = "let me change things"


@pytest.fixture
def viewer(feed: Feed) -> Iterator[Viewer]:
    with serving(feed, TOKEN) as dashboard:
        dashboard.viewer.snapshot(START)
        yield dashboard.viewer


def ask(viewer: Viewer, action: str, authorization: str = f"Bearer {TOKEN}") -> Answer:
    return viewer.ask(f"/{action}", "POST", headers={"Authorization": authorization})


def test_the_run_is_paused_and_resumed_once_each(feed: Feed, viewer: Viewer) -> None:
    for action, paused in (("pause", True), ("resume", False)):
        assert ask(viewer, action).json == {"changed": True}
        assert (feed.pause.since is not None) == paused
        assert ask(viewer, action).json == {"changed": False}


def test_a_pause_is_shown_at_once_and_not_at_the_next_poll(feed: Feed, viewer: Viewer) -> None:
    assert ask(viewer, "pause").status == 200
    wait_until(  # the clock of the feed stands: nothing else makes it poll
        lambda: viewer.ask("/snapshot").json["paused_since"] == feed.pause.since, "the pause"
    )


@pytest.mark.parametrize("authorization", ["", "Bearer wrong", "Basic YTpiOmM="])
@pytest.mark.parametrize("action", ["pause", "resume"])
def test_without_the_token_nothing_changes(
    feed: Feed, viewer: Viewer, action: str, authorization: str
) -> None:
    feed.pause.since = before = START if action == "resume" else None
    answer = ask(viewer, action, authorization)
    assert (answer.status, answer.text) == (401, "invalid token")
    assert viewer.ask(f"/{action}").status == 405
    assert feed.pause.since == before


def test_a_dashboard_without_a_token_cannot_pause(feed: Feed) -> None:
    with serving(feed) as dashboard:
        answer = ask(dashboard.viewer, "pause")
    assert answer.status == 403
    assert answer.text == "the dashboard is read-only: it was started without a token"
    assert feed.pause.since is None


def test_a_run_that_stops_says_so(feed: Feed, viewer: Viewer) -> None:
    feed.pause.stopping = True
    answer = ask(viewer, "pause")
    assert (answer.status, answer.text) == (503, "the run is stopping")
