"""Histories that a gateway makes for a dashboard elsewhere, such as in the driver's pod."""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.dashboard.feed import Dashboard, Feed, serving
from tests.dashboard.viewer import Answer
from tests.helpers import PATIENCE_S, WORD_COUNT, free_address, processes_below, wait_until
from tests.history.harness import record_words
from tests.memory_group import memory_group
from wallaroo.gateway.explaining import Explaining
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.run.background_run import BackgroundRun

TOKEN = "a token that is long enough"
MIB = 1024**2


class Cluster:
    """A gateway in a separate process, and the dashboard of a driver that lacks its log."""

    def __init__(
        self,
        directory: Path,
        feed: Feed,
        stack: contextlib.ExitStack,
        options: Sequence[str] = ("--histories",),
    ) -> None:
        (directory / "token").write_text(TOKEN)
        self.code = Path(shutil.copytree(WORD_COUNT, directory / "app")) / "application.py"
        self.log = directory / "edge"
        self.log.mkdir()
        record_words(self.log, [b"zebra", b"zoo"])
        door = free_address()
        arguments = [
            *("gateway", str(self.code.parent), "--in", "127.0.0.1:0", "--out", "127.0.0.1:9"),
            *("--state-dir", str(self.log), "--token-file", str(directory / "token")),
            *("--listen", door, *options),
        ]
        self.gateway = BackgroundRun(arguments)
        stack.push(self.gateway.__exit__)
        self.gateway.wait_for_event("ready", PATIENCE_S)
        feed.explain = GatewayClient(f"http://{door}", patience_s=0, token=TOKEN).history
        feed.explained = Explaining("/app", (), Path("/edge"), is_here=False)
        self.dashboard: Dashboard = stack.enter_context(serving(feed, TOKEN))

    def history(self, key: str) -> Answer:
        """What the dashboard answers to a user with its token."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return self.dashboard.viewer.ask(f"/history?key={key}", "POST", None, headers)

    def commands(self) -> list[int]:
        """The commands that run for the gateway."""
        below = processes_below(self.gateway.process.pid)
        return [pid for pid, command in below.items() if " explain " in command]


@pytest.fixture
def cluster(tmp_path: Path, feed: Feed) -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        yield Cluster(tmp_path, feed, stack)


def test_the_history_comes_from_the_gateways_log(cluster: Cluster) -> None:
    answer = cluster.history("z")
    assert answer.status == 200, answer.text
    assert answer.json["text"].count("word totals['z']") == 2
    assert answer.json["notes"] == ""
    unknown = cluster.history("q")
    assert unknown.status == 503
    assert "has no change of an entity with the key 'q'" in unknown.text
    assert "gateway call" not in unknown.text


def test_a_gateway_makes_none_unless_it_is_told_to(tmp_path: Path, feed: Feed) -> None:
    with contextlib.ExitStack() as stack:
        answer = Cluster(tmp_path, feed, stack, options=()).history("z")
    told = "the gateway makes no histories: start it with --histories"
    assert (answer.status, answer.text) == (503, told)


def test_code_that_raises_is_told(cluster: Cluster) -> None:
    cluster.code.write_text("raise ValueError('no such file')")
    answer = cluster.history("z")
    assert (answer.status, "no such file" in answer.text) == (503, True)


def test_one_is_made_at_a_time_and_ends_with_the_gateway(cluster: Cluster) -> None:
    cluster.code.write_text("import time\ntime.sleep(600)")
    answers: list[Answer] = []
    asking = threading.Thread(target=lambda: answers.append(cluster.history("z")), daemon=True)
    asking.start()
    (command,) = wait_until(cluster.commands, "the command")
    assert cluster.history("z").text == "another history is being made: try again in a minute"
    cluster.gateway.process.send_signal(signal.SIGTERM)
    assert cluster.gateway.wait(PATIENCE_S) == 0
    assert not Path(f"/proc/{command}").exists()
    asking.join(PATIENCE_S)
    assert [(one.status, "is stopping: try again" in one.text) for one in answers] == [(503, True)]
    away = cluster.history("z")
    assert (away.status, away.text) == (503, "gateway call 'history' failed: Connection refused")


def test_it_ends_with_a_gateway_that_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    code = f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(600)"
    cluster.code.write_text(code)
    threading.Thread(target=lambda: cluster.history("z"), daemon=True).start()
    wait_until(begun.exists, "the command")
    (command,) = cluster.commands()
    cluster.gateway.process.kill()
    wait_until(lambda: not Path(f"/proc/{command}").exists(), "the end of the command")


def test_memory_runs_out_in_the_command_and_not_in_the_gateway(cluster: Cluster) -> None:
    cluster.code.write_text("held = [bytearray(b'x' * (1 << 20)) for _ in range(4096)]")
    with memory_group() as group:
        group.limit(500 * MIB)
        group.add(cluster.gateway.process.pid)
        answer = cluster.history("z")
        assert "MiB of memory here: call the command in a terminal" in answer.text
        assert group.kills == 0
        assert cluster.gateway.stop() == 0
