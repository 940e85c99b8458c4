"""Histories of keys over HTTP: the command for them, who may have it run, and its limits."""

from __future__ import annotations

import functools
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.dashboard.feed import AWAY, Dashboard, Feed, serving
from tests.dashboard.viewer import Answer, Viewer
from tests.helpers import PATIENCE_S, WORD_COUNT, wait_until
from tests.history.harness import record_words
from wallaroo.gateway import explaining
from wallaroo.gateway.explaining import Explaining

TOKEN = "let me run things"
KEY = "/history?key=z"
HANGS = """
import time

time.sleep(600)
"""
EATS = """
bytearray(3 << 30)
"""
STARTS = """
import os
import subprocess

subprocess.Popen(["sleep", "600"], stderr=int(os.environ["HELD"]))
"""


@pytest.fixture
def dashboard(feed: Feed) -> Iterator[Dashboard]:
    with serving(feed, TOKEN) as dashboard:
        yield dashboard


@pytest.fixture
def viewer(dashboard: Dashboard) -> Viewer:
    return dashboard.viewer


def run(viewer: Viewer, path: str = KEY, token: str = TOKEN) -> Answer:
    return viewer.ask(path, "POST", None, {"Authorization": f"Bearer {token}"})


def of_code(feed: Feed, directory: Path, code: str) -> None:
    """Let the run of *feed* be of other code."""
    (directory / "application.py").write_text(code)
    feed.explained = Explaining(str(directory), (), directory)


@pytest.mark.parametrize(
    ("key", "argument"),
    [
        ("z", "z"),
        ("a%20b%27", '"a b\'"'),
        ("%27%24x%27", "''\"'\"'$x'\"'\"''"),
        ("--all", "\"'--all'\""),
        ("-5", "-5"),
        ("a%0Ab", "\"'a\\nb'\""),
        ("%e2%80%aea", "\"'\\u202ea'\""),
        ("%c3%a4", "'ä'"),
    ],
)
def test_the_command_for_a_key_can_be_copied(viewer: Viewer, key: str, argument: str) -> None:
    command = viewer.ask(f"/history?key={key}").json["command"]
    assert command == f"wallaroo explain app {argument} --state-dir /state -- --most 5"


def test_texts_that_no_command_can_have_are_refused(viewer: Viewer) -> None:
    for key in ("", "a%00b", "z" * 4_001):
        answer = viewer.ask(f"/history?key={key}")
        assert (answer.status, answer.text.partition(" here")[0]) == (
            400,
            "a key has 1 to 4,000 characters",
        )


def test_the_page_says_how_late_messages_are_explained(feed: Feed, viewer: Viewer) -> None:
    late = "wallaroo explain app --late --state-dir /state --archive /archive -- --most 5"
    feed.explained = Explaining("app", ("--most", "5"), Path("/state"), Path("/archive"))
    described = viewer.ask("/application").json["histories"]
    assert described == {"late": late, "here": True, "shows": True}
    with serving(feed) as without:
        assert without.viewer.ask("/application").json["histories"]["shows"] is False


def test_arguments_are_shown_to_those_alone_who_share_the_machine_or_have_the_token(
    feed: Feed,
) -> None:
    with serving(feed, host="0.0.0.0") as dashboard:
        command = dashboard.viewer.ask(KEY).json["command"]
    assert command == "wallaroo explain app z --state-dir /state -- …"


def test_dead_letters_have_the_command_if_their_keys_are_known(feed: Feed, viewer: Viewer) -> None:
    for key in (None, "12", "x" * 100):
        feed.dead_letters.add(b"", key=key, arrived_ns=5_000_000_000)
    known = "wallaroo explain app 12 --at 1970-01-01T00:00:05.000Z --state-dir /state -- --most 5"
    shown = [letter["explain"] for letter in viewer.ask("/dead-letters").json]
    assert shown == [None, known, None]


def test_a_history_is_shown_to_who_has_the_token(
    feed: Feed, viewer: Viewer, tmp_path: Path
) -> None:
    record_words(tmp_path, [b"zebra", b"a\x1b[2J zoo"])
    feed.explained = Explaining(str(WORD_COUNT), (), tmp_path)
    with capture_logs() as logs:
        answer = run(viewer)
    assert answer.status == 200
    assert answer.json["text"].count("word totals['z']") == 2
    assert r"b'a\x1b[2J zoo'" in answer.json["text"]
    assert answer.json["notes"] == ""
    (asked,) = [one for one in logs if one["event"] == "history asked for"]
    assert (asked["key"], asked["by"]) == ("z", "127.0.0.1")
    nothing = run(viewer, "/history?key=q")
    assert nothing.status == 503
    assert "has no change of an entity with the key 'q'" in nothing.text


def test_a_history_is_not_shown_to_others(feed: Feed, viewer: Viewer) -> None:
    assert viewer.ask(KEY, "POST").status == 401
    assert run(viewer, token="wrong").status == 401
    with serving(feed) as without:
        assert run(without.viewer).status == 403


def test_a_gateway_is_asked_if_the_log_is_where_it_is(feed: Feed, viewer: Viewer) -> None:
    feed.explained = Explaining("/app", (), Path("/state"), is_here=False)
    described = viewer.ask("/application").json["histories"]
    assert (described["here"], described["shows"]) == (False, True)
    assert viewer.ask(KEY, "POST").status == 401
    assert run(viewer, "/history?key=--all").json == {"text": "of '--all'"}
    feed.set(away=True)
    answer = run(viewer)
    assert (answer.status, answer.text) == (503, AWAY)


def test_what_takes_too_long_is_ended(
    feed: Feed, viewer: Viewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explaining, "LIMIT_S", 1.0)
    of_code(feed, tmp_path, HANGS)
    answer = run(viewer)
    told = "it takes longer than 1 s: call the command in a terminal"
    assert (answer.status, answer.text) == (503, told)


def test_what_it_has_started_ends_with_it(
    feed: Feed, viewer: Viewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_code(feed, tmp_path, f"{STARTS}\nraise ValueError")
    ended, held = os.pipe()
    os.set_inheritable(held, True)
    inherited = functools.partial(subprocess.Popen, close_fds=False)
    monkeypatch.setattr(subprocess, "Popen", inherited)
    monkeypatch.setenv("HELD", str(held))
    assert "ValueError" in run(viewer).text
    os.close(held)
    with os.fdopen(ended, "rb") as reading:
        assert reading.read() == b""  # nobody holds the other end any more


def test_what_needs_too_much_memory_fails(feed: Feed, viewer: Viewer, tmp_path: Path) -> None:
    of_code(feed, tmp_path, EATS)
    answer = run(viewer)
    assert (answer.status, "MemoryError" in answer.text) == (503, True)


def test_it_gets_half_of_what_a_container_has_left(
    feed: Feed, viewer: Viewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explaining, "available_bytes", lambda: 400 << 20)
    of_code(feed, tmp_path, "bytearray(250 << 20)")
    advice = (
        "it may have 200 MiB of memory here: call the command in a terminal where there is more"
    )
    assert run(viewer).text.splitlines()[-1] == advice


def test_one_is_made_at_a_time_and_ends_with_the_dashboard(feed: Feed, tmp_path: Path) -> None:
    of_code(feed, tmp_path, HANGS)
    with serving(feed, TOKEN) as dashboard:
        explainer = dashboard.server._histories._explainer
        first = threading.Thread(target=lambda: run(dashboard.viewer), daemon=True)
        first.start()
        wait_until(lambda: explainer._process is not None, "the process")
        process = explainer._process
        assert "another history is being made" in run(dashboard.viewer).text
    assert process is not None
    assert process.wait(PATIENCE_S) != 0
