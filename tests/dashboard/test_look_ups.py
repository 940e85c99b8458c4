"""Entities over HTTP: what is asked of the gateway, and what is answered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from tests.dashboard.feed import AWAY, Feed, serving
from tests.dashboard.viewer import Viewer
from wallaroo.dashboard import look_ups
from wallaroo.dashboard.look_ups import StateRoutes
from wallaroo.wire.look_ups import LookUp

STATE = "word totals"
PATH = "/state/word%20totals"
FOUND = {"state": STATE, "key": "z", "entity": {"word_totals": {"zebra": 2}}, "position": 9}


@pytest.fixture
def viewer(feed: Feed) -> Iterator[Viewer]:
    with serving(feed) as dashboard:
        yield dashboard.viewer


def test_a_key_is_looked_up_in_all_states(feed: Feed, viewer: Viewer) -> None:
    feed.entities = [FOUND]
    assert viewer.ask("/state?key=z").json == {"entities": [FOUND], "position": 7}
    for path in ("/state?key=a", "/state?key=%00%ff", "/state?key=", "/state"):
        assert viewer.ask(path).json == {"entities": [], "position": 7}


def test_an_entity_is_answered_as_it_is(feed: Feed, viewer: Viewer) -> None:
    feed.entities = [FOUND, {**FOUND, "key": 1}]
    assert viewer.ask(f"{PATH}/z").json == FOUND
    answer = viewer.ask(f"{PATH}/a%2Fb%20c")
    assert (answer.status, answer.headers["wallaroo-position"]) == (404, "7")
    assert answer.text == "state 'word totals' has no entity of the key 'a/b c', as of offset 7"


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/z", LookUp(STATE, "z")),
        ("/z?literal=false", LookUp(STATE, "z")),
        ("/%27z%27?literal=true", LookUp(STATE, "'z'", literal=True)),
        ("/", LookUp(STATE, "")),
        ("/a%2Fb/c", LookUp(STATE, "a/b/c")),
        ("/a%0Ab", LookUp(STATE, "a\nb")),
        ("/%ed%a0%80", LookUp(STATE, "\ud800")),
        ("", LookUp(STATE)),
        ("?prefix=z&limit=3&after=%27zebra%27", LookUp(STATE, None, False, "z", "'zebra'", 3)),
    ],
)
def test_paths_and_parameters_say_what_is_looked_up(
    feed: Feed, viewer: Viewer, path: str, asked: LookUp
) -> None:
    assert viewer.ask(PATH + path).status in {200, 404}
    assert feed.asked == [[asked]]


def test_a_page_has_entities_and_says_how_to_get_the_next_one(feed: Feed, viewer: Viewer) -> None:
    feed.entities = [FOUND]
    assert viewer.ask(PATH).json == {"entities": [FOUND], "position": 7, "next": None}


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/state/totals/z", 404, "there is no state 'totals'; the application has 'word totals'"),
        (f"{PATH}?limit=0", 400, "limit is a number from 1 to 1,000, not '0'"),
        (f"{PATH}?limit=1001", 400, "limit is a number from 1 to 1,000, not '1001'"),
        (f"{PATH}?limit=%D9%A3", 400, "limit is a number from 1 to 1,000, not '٣'"),
        ("/state?key=z&state=a", 400, "unknown parameter 'state'; known: key"),
        (f"{PATH}?key=z", 400, "unknown parameter 'key'; known: after, limit, prefix"),
        (f"{PATH}/z?limit=1", 400, "unknown parameter 'limit'; known: literal"),
        (f"{PATH}/z?literal=1", 400, "literal is 'true' or 'false', not '1'"),
        (f"{PATH}/%ff", 400, "b'%ff' is not text in UTF-8"),
        (f"{PATH}/{'z' * 4_001}", 400, "a key has at most 4,000 characters here"),
    ],
)
def test_what_makes_no_sense_is_refused(
    feed: Feed, viewer: Viewer, path: str, status: int, reason: str
) -> None:
    answer = viewer.ask(path)
    assert (answer.status, answer.text, feed.asked) == (status, reason, [])


def test_an_entity_is_shown_even_if_it_contains_what_json_lacks(feed: Feed, viewer: Viewer) -> None:
    numbers = [float("nan"), float("inf"), float("-inf"), 1.5, None]
    feed.entities = [{**FOUND, "entity": {"n": numbers, "half": "\ud800"}}]
    found = viewer.ask(f"{PATH}/z").json
    assert found["entity"] == {"n": ["NaN", "Infinity", "-Infinity", 1.5, None], "half": "\ud800"}


def test_an_entity_that_cannot_be_shown_says_why(feed: Feed, viewer: Viewer) -> None:
    feed.entities = [{"state": STATE, "key": "z", "error": "it is damaged", "position": 9}]
    answer = viewer.ask(f"{PATH}/z")
    assert (answer.status, answer.text) == (500, "state 'word totals', key 'z': it is damaged")
    assert viewer.ask(PATH).json["entities"] == feed.entities


def test_keys_that_are_asked_for_meanwhile_are_looked_up_in_one_call(feed: Feed) -> None:
    is_asked, may_answer = threading.Event(), threading.Event()

    def look_up(asked: Sequence[LookUp]) -> Sequence[dict[str, Any]]:
        is_asked.set()
        assert may_answer.wait(60)
        return feed.look_up(asked)

    async def ask() -> list[dict[str, Any]]:
        routes = StateRoutes(look_up, lambda: [STATE])
        request = Request({"type": "http"}, receive=connected)
        first = asyncio.create_task(routes.of_key(LookUp(STATE, "z"), request))
        await asyncio.to_thread(is_asked.wait)
        others = [
            asyncio.create_task(routes.of_key(LookUp(STATE, key), request)) for key in "abzcd"
        ]
        await asyncio.sleep(0)
        may_answer.set()
        return await asyncio.gather(first, *others)

    feed.entities = [FOUND]
    found = [one["found"] for one in asyncio.run(ask())]
    assert found == [[FOUND], [], [], [FOUND], [], []]
    assert [[one.key for one in asked] for asked in feed.asked] == [["z"], [*"abzcd"]]


async def connected() -> Message:
    """What comes of a client that waits."""
    await asyncio.get_running_loop().create_future()
    return {}


async def gone() -> Message:
    """What comes of a client that has gone."""
    return {"type": "http.disconnect"}


def test_what_was_not_answered_with_the_others_is_asked_for_again(feed: Feed) -> None:
    def look_up(asked: Sequence[LookUp]) -> Sequence[dict[str, Any]]:
        return feed.look_up(asked)[:2]

    async def ask() -> list[dict[str, Any]]:
        routes, request = StateRoutes(look_up, lambda: [STATE]), Request({"type": "http"})
        return await asyncio.gather(
            *(routes.of_key(LookUp(STATE, key), request) for key in "zabzc")
        )

    feed.entities = [FOUND]
    assert [one["found"] for one in asyncio.run(ask())] == [[FOUND], [], [], [FOUND], []]
    asked = [[one.key for one in asked] for asked in feed.asked]
    assert asked == [[*"zabzc"], [*"bzc"], ["c"]]


def test_nothing_is_looked_up_for_clients_that_have_gone_meanwhile(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_ups, "_PATIENCE_S", 0.0)

    async def ask() -> list[Any]:
        routes = StateRoutes(feed.look_up, lambda: [STATE])
        here, away = (Request({"type": "http"}, receive=one) for one in (connected, gone))
        asking = [routes.of_key(LookUp(STATE, "a"), away), routes.of_key(LookUp(STATE, "b"), here)]
        return [*await asyncio.gather(*asking, return_exceptions=True)]

    left, found = asyncio.run(ask())
    assert isinstance(left, HTTPException)
    assert found["found"] == []
    assert [[one.key for one in asked] for asked in feed.asked] == [["b"]]


def test_whoever_waits_is_told_of_a_failure(feed: Feed, viewer: Viewer) -> None:
    feed.set(10, away=True)
    for path in (f"{PATH}/z", PATH, "/state?key=z"):
        answer = viewer.ask(path)
        assert (answer.status, answer.text) == (503, AWAY)
