"""Applications whose state is on an object store: kills, faults of the store, and commands."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.helpers import wait_until
from tests.object_store.proxy import Proxy
from tests.spark.harness import (
    APPS,
    PATIENCE_S,
    Receiver,
    ReportedRun,
    called,
    kill_gateway,
    processes,
)
from tests.spark.test_restart import SOURCE, Sender, accepted, mid_stream
from wallaroo.system.object_store import ObjectPath

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("jars")]

WORDS = 12_000


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An application in a directory of its own, in which its log is, too."""
    return Path(shutil.copytree(APPS / "word_count", tmp_path / "app"))


def run(app: Path, receiver: Receiver, state: ObjectPath, *options: str) -> ReportedRun:
    command = ["run", str(app), "--in", "127.0.0.1:0", "--out", receiver.address, *options]
    command += ["--workers", "2", "--state-dir", str(state), "--ui", "127.0.0.1:0"]
    return ReportedRun(command)


def check_counts(sender: Sender, received: list[bytes]) -> None:
    """Check every count of every word."""
    due = Counter(word for payload in sender.payloads for word in payload.split())
    counts: dict[bytes, list[int]] = {}
    for line in received:
        word, _, count = line.strip().rpartition(b" => ")
        counts.setdefault(word, []).append(int(count))
    assert counts == {word: list(range(1, n + 1)) for word, n in due.items()}


def _more_than(least: int, count: Callable[[], int]) -> bool:
    return count() > least


def commits(state: ObjectPath) -> int:
    return len(list((state / "checkpoint" / "commits").glob("[0-9]*")))


def test_kills_lose_and_double_nothing_and_commands_read_the_state(
    app: Path, folder: ObjectPath
) -> None:
    sender = Sender(WORDS)
    with Receiver("lines") as receiver:
        with mid_stream(run(app, receiver, folder), receiver, sender, WORDS // 3) as running:
            wait_until(lambda: commits(folder) > 0, "an epoch")
            kill_gateway(running)
            running.wait_for_event("gateway restarted", PATIENCE_S)
            for java in processes(running, "PythonGatewayServer"):
                os.kill(java, signal.SIGKILL)
            running.wait_for_event("query restarts", PATIENCE_S)
            receiver.wait_for(2 * (WORDS // 3))
            running.process.send_signal(signal.SIGKILL)
            running.process.wait(PATIENCE_S)
        shown = called("state", "show", app, "x", "--state-dir", folder)
        assert shown.returncode == 0, shown.stderr
        with run(app, receiver, folder) as running:
            sender.send(running.sources[SOURCE], accepted(running))
            running.wait_until_accepted(SOURCE, WORDS)
            received = receiver.wait_for(2 * WORDS)
            assert running.stop() == 0
    check_counts(sender, received)
    shown = called("state", "show", app, "x", "--state-dir", folder)
    assert json.loads(shown.stdout)["entity"]["word_totals"] == {"x": WORDS}, shown
    checked = called("check", app, "--state-dir", folder)
    assert "loads 2 entities" in checked.stdout, checked
    exported = called("state", "export", app, "--state-dir", folder)
    assert len(exported.stdout.splitlines()) == 2, exported
    for file in (folder / "checkpoint" / "noted").iterdir():  # then Spark reads it
        file.unlink()
    assert called("state", "export", app, "--state-dir", folder).stdout == exported.stdout
    assert not (app / ".wallaroo" / "word-count-application" / "checkpoint").exists()
    elsewhere = Path(shutil.copytree(APPS / "word_count", app.with_name("elsewhere")))
    refused = called(
        *("run", elsewhere, "--in", "127.0.0.1:0", "--out", receiver.address, "--workers", 2),
        *("--state-dir", folder, "--no-ui"),
    )
    assert refused.returncode == 2
    assert f"the state in {folder} belongs to the log of" in refused.stderr
    assert "start with --accept-lost-journal" in refused.stderr


def _expired(_method: str, _path: str) -> str:
    return "ExpiredToken"


def _slow(method: str, _path: str) -> str | None:
    return "late" if method == "PUT" else None


def _throttled(method: str, _path: str) -> str | None:
    return "SlowDown" if method == "PUT" else None


def _cut_off(method: str, path: str) -> str | None:
    return "lost" if method == "PUT" and "/offsets/" in path else None


def _broken(_method: str, _path: str) -> str:
    return "InternalError"


def _unread(method: str, _path: str) -> str | None:
    return "InternalError" if method in {"GET", "HEAD"} else None


def _silent(_method: str, _path: str) -> str:
    return "silent"


_ATTEMPTS_S = 120.0
"""Less than what all attempts of a request to a silent store take."""
_AWAY = _expired, _throttled, _broken, _unread


def test_a_store_that_fails_delays_epochs_and_loses_nothing(
    app: Path, folder: ObjectPath, network: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WALLAROO_PACE", "epoch_least_s=3")
    sender, faults = Sender(WORDS), [_expired, _slow, _throttled, _cut_off, _broken, _unread]
    ends = [WORDS // 6 * part for part in range(1, 6)]
    ends += [WORDS // 12 * 11, WORDS]
    with Receiver("lines") as receiver, run(app, receiver, folder) as running:
        sender.send(running.sources[SOURCE], 0, ends[0])
        receiver.wait_for(2 * ends[0])
        wait_until(lambda: commits(folder) > 0, "an epoch")
        for fault, start, end in zip(faults, ends, ends[1:], strict=False):
            sender.send(running.sources[SOURCE], start, start + 1)
            receiver.wait_for(2 * (start + 1))  # now the next epoch has begun
            before, seen = commits(folder), network.faults.total()
            network.fail(fault)
            sender.send(running.sources[SOURCE], start + 1, end)
            if fault in _AWAY:  # messages are processed meanwhile
                receiver.wait_for(2 * end)
            wait_until(partial(_more_than, seen, network.faults.total), "a fault")
            if fault == _expired:
                waits = running.wait_for_event("epoch does not end", PATIENCE_S)
                assert f"refuses {folder}/savable: check the credentials" in waits["reason"]
            network.heal()
            receiver.wait_for(2 * end)
            wait_until(partial(_more_than, before, partial(commits, folder)), "an epoch")
        assert running.stop() == 0
    check_counts(sender, receiver.messages)
    assert "not-a-secret-at-all" not in json.dumps(running.events)


def test_a_run_whose_store_is_silent_ends_in_time_and_resumes(
    app: Path, folder: ObjectPath, network: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WALLAROO_PACE", "epoch_least_s=3")
    sender = Sender(WORDS)
    with Receiver("lines") as receiver:
        with run(app, receiver, folder, "--drain-timeout", "2") as running:
            sender.send(running.sources[SOURCE], 0, WORDS // 2)
            receiver.wait_for(WORDS)
            wait_until(lambda: commits(folder) > 0, "an epoch")
            sender.send(running.sources[SOURCE], WORDS // 2, WORDS // 2 + 1)
            receiver.wait_for(WORDS + 2)
            network.fail(_silent)
            wait_until(lambda: network.faults["silent"] > 0, "a request")
            running.process.send_signal(signal.SIGTERM)
            running.process.wait(_ATTEMPTS_S)
            network.heal()
        with run(app, receiver, folder) as running:
            sender.send(running.sources[SOURCE], WORDS // 2 + 1)
            receiver.wait_for(2 * WORDS)
            assert running.stop() == 0
    check_counts(sender, receiver.messages)


@pytest.mark.usefixtures("executors")
def test_executors_share_the_state_and_one_that_is_killed_loses_nothing(
    app: Path, folder: ObjectPath
) -> None:
    sender, master = Sender(WORDS), ("--master", "local-cluster[2,4,1024]")
    with Receiver("lines") as receiver, run(app, receiver, folder, *master) as running:
        sender.send(running.sources[SOURCE], 0, WORDS // 2)
        receiver.wait_for(WORDS)
        wait_until(lambda: commits(folder) > 0, "an epoch")
        os.kill(processes(running, "CoarseGrainedExecutorBackend")[0], signal.SIGKILL)
        sender.send(running.sources[SOURCE], WORDS // 2)
        receiver.wait_for(2 * WORDS)
        assert running.stop() == 0
    check_counts(sender, receiver.messages)


def test_two_runs_with_one_state_do_not_both_go_on(app: Path, folder: ObjectPath) -> None:
    other, owner = Path(shutil.copytree(app, app.with_name("other"))), folder / "owner"
    with Receiver("lines") as receiver, run(app, receiver, folder) as running:
        wait_until(owner.exists, "the first run")
        refused = called(
            *("run", other, "--in", "127.0.0.1:0", "--out", receiver.address, "--workers", 2),
            *("--state-dir", folder, "--no-ui"),
        )
        assert refused.returncode == 2
        assert f"the state in {folder} belongs to the log of" in refused.stderr
        owner.write_text(json.dumps({"log": "another", "at": "elsewhere"}))  # it was taken over
        for java in processes(running, "PythonGatewayServer"):
            os.kill(java, signal.SIGKILL)
        assert running.wait(PATIENCE_S) == 1
    told = json.dumps(running.events)
    assert f"the state in {folder} belongs to the log of elsewhere, which may be in use" in told
