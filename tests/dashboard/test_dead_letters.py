"""Dead letters over HTTP: what is listed and shown, and who may replay and drop."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.dashboard.feed import AWAY, PIPELINE, Feed, serving
from tests.dashboard.viewer import Answer, Viewer

TOKEN = "let me change things"


def with_three() -> Feed:
    """A feed with three dead letters, of which the second has no payload."""
    feed = Feed()
    for payload in (b"\xff<b>", None, b"three"):
        feed.dead_letters.add(payload)
    return feed


@pytest.fixture
def feed() -> Feed:
    return with_three()


@pytest.fixture
def viewer(feed: Feed) -> Iterator[Viewer]:
    with serving(feed, TOKEN) as dashboard:
        yield dashboard.viewer


@pytest.fixture(scope="module")
def unchanged() -> Iterator[Viewer]:
    """A viewer of dead letters that no test changes."""
    with serving(with_three(), TOKEN) as dashboard:
        yield dashboard.viewer


def change(viewer: Viewer, action: str, numbers: Any, token: str = TOKEN) -> Answer:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = numbers if isinstance(numbers, bytes) else json.dumps(numbers)
    return viewer.ask(f"/dead-letters/{action}", "POST", body, headers)


def listed(viewer: Viewer) -> Sequence[int]:
    return [letter["id"] for letter in viewer.ask("/dead-letters").json]


def test_they_are_listed_without_payloads_the_newest_first(feed: Feed, viewer: Viewer) -> None:
    feed.dead_letters.add(b"four", key="'f'", pipeline="Other", step="s", place="a.py:1", error="E")
    letters = viewer.ask("/dead-letters").json
    assert [letter["id"] for letter in letters] == [4, 3, 2, 1]
    assert letters[0] == {
        "id": 4,
        "at": 4.0,
        "source": PIPELINE,
        "pipeline": "Other",
        "step": "s",
        "place": "a.py:1",
        "error": "E",
        "message": "b'four'",
        "key": "'f'",
        "traceback": "",
        "replayable": True,
        "explain": "wallaroo explain app \"'f'\" --at 1970-01-01T00:00:04.000Z "
        "--state-dir /state -- --most 5",
    }
    assert [letter["replayable"] for letter in letters] == [True, True, False, True]


def test_the_last_fifty_are_listed(feed: Feed, viewer: Viewer) -> None:
    for _ in range(60):
        feed.dead_letters.add(b"more")
    assert listed(viewer) == [*range(63, 13, -1)]


def test_a_payload_is_shown_as_text_whatever_it_contains(feed: Feed, viewer: Viewer) -> None:
    assert viewer.ask("/dead-letters/1").json == {"bytes": 4, "shown": r"\xff<b>"}
    feed.dead_letters.add("tab\tline\nbell\a\x1b[31mred \u202eleft ü€".encode())
    shown = viewer.ask("/dead-letters/4").json["shown"]
    assert shown == "tab\tline\nbell\\x07\\x1b[31mred \\u202eleft ü€"
    feed.dead_letters.add(b"a" * 10_000)
    assert viewer.ask("/dead-letters/5").json == {"bytes": 10_000, "shown": "a" * 4096}


def test_a_payload_is_downloaded_as_it_arrived(feed: Feed, viewer: Viewer) -> None:
    feed.dead_letters.add(b"<script>" + bytes(range(256)) * 40)
    saved = viewer.ask("/dead-letters/4/payload")
    assert saved.status == 200
    assert saved.body == feed.dead_letters.kept[3].payload
    assert saved.headers["content-type"] == "application/octet-stream"
    assert saved.headers["content-disposition"] == 'attachment; filename="dead-letter-4"'


@pytest.mark.parametrize(
    ("number", "reason"),
    [(2, "dead letter 2 has no payload"), (9, "there is no dead letter 9")],
)
def test_a_payload_that_does_not_exist_is_not_found(
    viewer: Viewer, number: int, reason: str
) -> None:
    for path in (f"/dead-letters/{number}", f"/dead-letters/{number}/payload"):
        answer = viewer.ask(path)
        assert (answer.status, answer.text) == (404, reason)


def test_those_that_are_named_are_dropped(feed: Feed, viewer: Viewer) -> None:
    answer = change(viewer, "drop", [1, 2, 9])
    assert (answer.status, answer.json) == (200, {"count": 2})
    assert listed(viewer) == [3]
    assert not feed.dead_letters.replayed


def test_those_that_have_a_payload_are_replayed(feed: Feed, viewer: Viewer) -> None:
    answer = change(viewer, "replay", [3, 2])
    assert (answer.status, answer.json) == (200, {"count": 1})
    assert listed(viewer) == [2, 1]
    assert feed.dead_letters.replayed == [3]


@pytest.mark.parametrize("action", ["replay", "drop"])
@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        TOKEN,
        "Bearer",
        "Bearer ",
        "Bearer guessed",
        f"Bearer {TOKEN}x",
        f"Basic {TOKEN}",
        "Bearer t\xf6ken",
    ],
)
def test_without_the_token_nothing_changes(
    unchanged: Viewer, action: str, header: str | None
) -> None:
    headers = {} if header is None else {"Authorization": header}
    refused = unchanged.ask(f"/dead-letters/{action}", "POST", "[1]", headers)
    assert (refused.status, refused.text) == (401, "invalid token")
    assert refused.headers["www-authenticate"] == "Bearer"
    assert listed(unchanged) == [3, 2, 1]


def test_the_token_is_checked_before_anything_else(viewer: Viewer) -> None:
    assert change(viewer, "drop", b"no JSON", "guessed").status == 401


@pytest.mark.parametrize("action", ["replay", "drop"])
def test_a_dashboard_without_a_token_is_read_only(feed: Feed, action: str) -> None:
    with serving(feed) as dashboard:
        for token in ("", "None", TOKEN):
            refused = change(dashboard.viewer, action, [1], token)
            assert refused.status == 403
            assert refused.text == "the dashboard is read-only: it was started without a token"
        assert dashboard.viewer.ask("/application").json["changeable"] is False
        assert listed(dashboard.viewer) == [3, 2, 1]


def test_a_dashboard_with_a_token_offers_changes(viewer: Viewer) -> None:
    assert viewer.ask("/application").json["changeable"] is True


@pytest.mark.parametrize("action", ["replay", "drop"])
@pytest.mark.parametrize(
    "numbers",
    [
        *(b"", b"no JSON", b"\xff", b"[1", b"[" * 100_000),
        *(None, 1, "1", {}, {"ids": [1]}, [], ["1"], [1.0], [True], [None], [[1]], [1, "2"]),
        [*range(51)],
    ],
    ids=lambda numbers: repr(numbers)[:20],
)
def test_anything_but_a_list_of_numbers_is_refused(
    unchanged: Viewer, action: str, numbers: Any
) -> None:
    refused = change(unchanged, action, numbers)
    assert refused.status == 400
    assert refused.text == "expected a JSON list of 1 to 50 dead letter numbers"
    assert listed(unchanged) == [3, 2, 1]


def test_fifty_can_be_changed_at_once(feed: Feed, viewer: Viewer) -> None:
    for _ in range(60):
        feed.dead_letters.add(b"more")
    assert change(viewer, "drop", listed(viewer)).json == {"count": 50}
    assert len(feed.dead_letters.kept) == 13


def test_while_the_gateway_is_away_nothing_changes(feed: Feed, viewer: Viewer) -> None:
    feed.set(10, away=True)
    for action in ("replay", "drop"):
        answer = change(viewer, action, [1])
        assert (answer.status, answer.text) == (503, AWAY)
    feed.set(10, away=False)
    assert listed(viewer) == [3, 2, 1]
