"""A run that is paused processes nothing until it is resumed, whatever is restarted meanwhile."""

from __future__ import annotations

import json
import shlex
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.helpers import wait_until
from tests.spark.harness import APPS, PATIENCE_S, Receiver, kill_gateway, run, send
from wallaroo.cli.main import main
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"
TOKEN = "let me change things"


def ask(running: BackgroundRun, path: str, method: str = "GET") -> bytes:
    url = running.wait_for_event("ready", 0)["dashboard"] + path
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with urllib.request.urlopen(
        urllib.request.Request(url, None, headers, method=method)
    ) as answer:
        body: bytes = answer.read()
        return body


def snapshot(running: BackgroundRun) -> Any:
    return json.loads(ask(running, "snapshot"))


def runs_again(running: BackgroundRun, restarted: set[str]) -> Any:
    """The snapshot after these parts, and no others, have been restarted."""
    seen: list[Any] = []

    def is_running() -> bool:
        seen.append(snapshot(running))
        parts = {one["part"] for one in seen[-1]["restarts"]}
        return parts == restarted and seen[-1]["interruption"] is None

    wait_until(is_running, f"{restarted} to run again")
    return seen[-1]


def called(running: BackgroundRun, command: str, *options: str) -> str:
    url = running.wait_for_event("ready", 0)["dashboard"]
    done = CliRunner().invoke(main, [command, url, *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_pause_lasts_until_it_is_resumed_and_ends_with_the_process(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    shown, options = ("--dashboard-token-file", str(token)), ("--ui-token-file", str(token))
    with (
        Receiver("lines") as receiver,
        run(APPS / "word_count", receiver, tmp_path / "state", options=options) as running,
    ):
        assert running.client is not None
        send(running.sources[SOURCE], [b"a b"] * 100)
        receiver.wait_for(200)
        running.wait_until_processed()
        command = json.loads(ask(running, "history?key=a"))["command"]
        done = CliRunner().invoke(main, shlex.split(command)[1:])
        assert ".word_totals['a'] 99 → 100" in done.output
        assert json.loads(ask(running, "history?key=a", "POST"))["text"] == done.stdout

        assert called(running, "pause", *shown) == "paused\n"
        assert running.wait_for_event("paused", PATIENCE_S)["by"] == "127.0.0.1"

        send(running.sources[SOURCE], [b"a b"] * 50)
        running.wait_until_accepted(SOURCE, 150)
        kill_gateway(running)
        running.wait_for_event("gateway restarted", PATIENCE_S)
        running.wait_for_event("query restarts", PATIENCE_S)
        seen = runs_again(running, {"query", "gateway"})
        assert seen["paused_since"] is not None
        assert all(one["reason"] for one in seen["restarts"])
        assert b"\nwallaroo_paused 1.0\n" in ask(running, "metrics")
        assert "  paused  " in called(running, "top", "--once")
        looked_up = json.loads(ask(running, "state?key=a"))
        assert looked_up["entities"][0]["entity"]["word_totals"] == {"a": 100}
        assert running.client.status().backlog == 50
        assert len(receiver.messages) == 200

        assert called(running, "resume", *shown) == "resumed\n"
        assert {b"a => 150\n", b"b => 150\n"} <= set(receiver.wait_for(300))
        running.wait_until_processed()
        assert b"\nwallaroo_paused 0.0\n" in ask(running, "metrics")

        called(running, "pause", *shown)
        send(running.sources[SOURCE], [b"a b"] * 10)
        running.wait_until_accepted(SOURCE, 160)
        assert running.stop() == 1
        left = running.wait_for_event("stopping before all is delivered", 0)
        assert (left["reason"], left["not_processed"]) == ("the run is paused", 10)
        with run(APPS / "word_count", receiver, tmp_path / "state") as again:
            assert len(receiver.wait_for(320)) == 320
            assert again.stop() == 0
