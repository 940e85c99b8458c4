"""Runs that archive their log on an object store, which fails as stores do."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.helpers import wait_until
from tests.object_store.proxy import Proxy
from tests.spark.harness import APPS, PATIENCE_S, Receiver, ReportedRun, called, kill_gateway
from tests.spark.test_restart import SOURCE, Sender, accepted
from wallaroo.system.object_store import ObjectPath

pytestmark = pytest.mark.spark

PART, ALL = 1_100, 2_300
"""Messages that fill more than a file of the log, and all of them."""
LENGTH = 64 * 1024
NOISE = bytes(b"!#$%&*+-./:;<=>?"[byte % 16] for byte in range(256))
"""Makes punctuation of bytes, which a word has not and zstd does not shorten to nothing."""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return Path(shutil.copytree(APPS / "word_count", tmp_path / "app"))


def run(app: Path, receiver: Receiver, archive: ObjectPath) -> ReportedRun:
    command = ["run", str(app), "--in", "127.0.0.1:0", "--out", receiver.address]
    command += ["--workers", "2", "--ui", "127.0.0.1:0", "--archive", str(archive)]
    return ReportedRun(command)


def names(archive: ObjectPath) -> list[str]:
    return [file.name for file in archive.glob("*.zst")]


def silent_at(network: Proxy, part: str) -> None:
    """Let the store be silent when it is asked to write what has a *part* in its name."""
    before = network.faults["silent"]
    network.fail(lambda method, path: "silent" if (method, part in path) == ("PUT", True) else None)
    wait_until(lambda: network.faults["silent"] > before, "an upload", PATIENCE_S)


def test_outages_and_kills_lose_nothing_and_commands_read_all_of_it(
    app: Path, folder: ObjectPath, network: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WALLAROO_PACE", "epoch_least_s=3")
    sender = Sender(0)
    sender.payloads = [b"x" + os.urandom(LENGTH).translate(NOISE) for _ in range(ALL)]
    with Receiver("lines") as receiver:
        with run(app, receiver, folder) as running:
            sender.send(running.sources[SOURCE], 0, PART)
            receiver.wait_for(PART)
            wait_until(lambda: len(names(folder)) == 1, "a file", PATIENCE_S)
            network.fail(lambda *_: "ExpiredToken")
            sender.send(running.sources[SOURCE], PART, 2 * PART)
            receiver.wait_for(2 * PART)  # messages flow meanwhile
            refuses = {"reason": f"the object store refuses {folder}/"}
            running.wait_for_event("archive waits", PATIENCE_S, refuses)
            silent_at(network, "partNumber=2")
            assert running.stop() == 0
        with run(app, receiver, folder) as again:
            silent_at(network, ".zst")
            kill_gateway(again)
            again.wait_for_event("gateway restarted", PATIENCE_S)
            network.heal()
            sender.send(again.sources[SOURCE], accepted(again))
            received = receiver.wait_for(ALL)
            wait_until(lambda: len(names(folder)) == 2, "the other file", PATIENCE_S)
            assert again.stop() == 0
    assert received == [b"x => %d\n" % (n + 1) for n in range(ALL)]
    events = running.events + again.events
    assert "not-a-secret-at-all" not in json.dumps(events)
    assert not any(event["event"] == "not archived" for event in events)
    read = ("--archive", folder)
    explained = called("explain", app, "x", "--at", "0", *read)
    assert "word totals['x'] (new) .word_totals['x'] + 1" in explained.stdout, explained
    replayed = called("replay", app, app.with_name("again"), *read)
    assert f"{ALL:,} messages run again" in replayed.stderr, replayed
    (state,) = (app / ".wallaroo").iterdir()
    logged = called("log", state, "--kind", "messages", "--json", *read)
    assert json.loads(logged.stdout.splitlines()[0])["first"] == 0, logged.stderr
