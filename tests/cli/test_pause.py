"""`wallaroo pause` and `wallaroo resume`, with a dashboard that is served."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.dashboard.feed import Feed, serving
from tests.helpers import free_address
from wallaroo.cli.main import main

TOKEN = "let me change things"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    return file


def called(command: str, url: str, token: Path) -> Result:
    return CliRunner().invoke(main, [command, url, "--dashboard-token-file", str(token)])


def test_an_application_is_paused_and_resumed(token: Path) -> None:
    feed = Feed()
    with serving(feed, TOKEN) as dashboard:
        answers = [
            called(command, dashboard.server.url, token).output
            for command in ("resume", "pause", "pause", "resume")
        ]
    assert answers == ["it was not paused\n", "paused\n", "it was paused already\n", "resumed\n"]
    assert feed.pause.since is None


def test_a_refusal_is_told_with_its_reason(token: Path) -> None:
    feed = Feed()
    with serving(feed) as dashboard:
        read_only = called("pause", dashboard.server.url, token)
    with serving(feed, "another token") as dashboard:
        unknown = called("pause", dashboard.server.url, token)
    assert (read_only.exit_code, unknown.exit_code) == (1, 1)
    reason = "the dashboard is read-only: it was started without a token"
    assert f"refuses to pause: {reason}\n" in read_only.output
    assert "refuses to pause: invalid token\n" in unknown.output


def test_the_token_is_required() -> None:
    ended = CliRunner().invoke(main, ["resume"])
    assert ended.exit_code == 2
    assert "--dashboard-token-file is missing: name the file that `wallaroo run` was given" in (
        ended.output
    )


def test_a_dashboard_that_is_not_there_is_told(token: Path) -> None:
    ended = called("pause", free_address(), token)
    assert ended.exit_code == 1
    assert "no dashboard responds at http://127.0.0.1:" in ended.output
    assert called("pause", "http://127.0.0.1:x/", token).exit_code == 2
