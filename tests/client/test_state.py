"""`wallaroo.client.State` against a dashboard: keys of all classes, pages, refusals, outages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.dashboard.feed import AWAY, Feed, serving
from wallaroo.client import Entity, State
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.wire.look_ups import LookUp

NAME = "word totals"
FOUND = {"state": NAME, "key": "z", "entity": {"word_totals": {"zebra": 2}}, "position": 9}
ENTITY = Entity("z", {"word_totals": {"zebra": 2}}, 9)


@pytest.fixture
def feed() -> Feed:
    return Feed()


@pytest.fixture
def url(feed: Feed) -> Iterator[str]:
    with serving(feed) as dashboard:
        yield dashboard.server.url


def test_an_entity_is_read_or_is_not_there(feed: Feed, url: str) -> None:
    feed.entities = [FOUND]
    with State(url, NAME) as state:
        assert list(state.entities()) == [ENTITY]
        assert state.get("y") is None
    assert state.get("y") is None
    state.close()


@pytest.mark.parametrize("key", ["", "a/b", "'", "ü", "\ud800", 12, -1.5, ("a", 1), None, b"\0"])
def test_keys_keep_their_class_and_their_characters(feed: Feed, url: str, key: object) -> None:
    with State(url, NAME) as state:
        assert state.get(key) is None
        assert feed.asked == [[LookUp(NAME, repr(key), literal=True)]]


class Paged(Feed):
    """Answers with two pages."""

    def look_up(self, asked: Sequence[LookUp]) -> Sequence[dict[str, Any]]:
        self.asked.append(asked)
        if asked[0].after is None:
            return [{"found": [FOUND], "position": 7, "next": "'z'"}]
        damaged = {"state": NAME, "key": "zb", "error": "it cannot be loaded", "position": 9}
        return [{"found": [{**FOUND, "key": "za"}, damaged], "position": 8, "next": None}]


def test_all_pages_are_read_and_what_cannot_be_loaded_says_so() -> None:
    feed = Paged()
    with serving(feed) as dashboard, State(dashboard.server.url, NAME) as state:
        found = list(state.entities("z"))
    assert [one.key for one in found] == ["z", "za", "zb"]
    assert [one.error for one in found] == [None, None, "it cannot be loaded"]
    assert [asked[0].after for asked in feed.asked] == [None, "'z'"]
    assert {asked[0].prefix for asked in feed.asked} == {"z"}


def test_a_token_is_sent_and_a_wrong_one_is_refused(feed: Feed) -> None:
    with serving(feed, "the token", "0.0.0.0") as dashboard:
        url = f"http://127.0.0.1:{urlsplit(dashboard.server.url).port}"
        state, stranger = State(url, NAME, token="the token"), State(url, NAME, token="a guess")
        assert state.get("y") is None
        with pytest.raises(UsageError, match="invalid token"):
            stranger.get("y")
        state.close()
        stranger.close()


def test_what_is_refused_is_told(url: str) -> None:
    reason = "there is no state 'totals'; the application has"
    with State(url, "totals") as state, pytest.raises(UsageError, match=reason):
        state.get("z")


def test_an_application_that_is_away_is_told_and_read_again_once_it_is_back(
    feed: Feed, url: str
) -> None:
    with State(url, NAME) as state:
        feed.set(1, away=True)
        with pytest.raises(RuntimeFailure, match=AWAY):
            state.get("z")
        feed.set(1, away=False)
        assert state.get("y") is None


def test_a_dashboard_that_is_gone_is_told(feed: Feed) -> None:
    with serving(feed) as dashboard:
        state = State(dashboard.server.url, NAME)
        assert state.get("y") is None
    with state, pytest.raises(RuntimeFailure, match=r"does not answer: .*refused"):
        state.get("y")


def test_a_token_that_no_header_can_have_is_refused() -> None:
    with pytest.raises(UsageError, match="the token has characters"):
        State("http://127.0.0.1:9/", NAME, token="wröng\n")


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:7990", "ftp://a", "http://", "http://a:b", "http://["]
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="URL"):
        State(url, NAME)
