"""Entities and messages that are large, and a Java heap that is small: what fits is exact, and what
does not becomes a dead letter."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.applications.large import MIB, filling, told
from tests.helpers import LARGE
from tests.spark.harness import PATIENCE_S, Receiver, called, run, send
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

SOURCE = "Texts"
SMALL = ("--conf", "spark.driver.memory=512m")
"""The least that is possible."""


def output(key: str, *mib: int) -> bytes:
    """What comes out after messages that add so much to the entity of *key*."""
    content = b""
    for one in mib:
        content += filling(key, len(content), one)
    return told(key, content).encode()


def looked_up(running: BackgroundRun, key: str) -> dict[str, Any]:
    """What the dashboard tells of *key*."""
    (url,) = [event["dashboard"] for event in running.events if event["event"] == "ready"]
    with urllib.request.urlopen(f"{url}state?key={key}", timeout=PATIENCE_S) as answer:
        (found,) = json.load(answer)["entities"]
    return dict(found)


def test_large_entities_and_messages_pass_through_a_small_heap_and_survive_a_kill(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"
    medium = [f"m{number}" for number in range(24)]
    due = [output("k", 20), output("k", 20, 36), output("l", 0), output("n", 1)]
    due += [output(key, 8) for key in medium]
    last = due[1:]
    with Receiver("lines") as receiver:
        with run(LARGE, receiver, state, options=SMALL) as running:
            largest = b"l 0 ".ljust(16 * MIB, b".")
            send(running.sources[SOURCE], [b"k 20", b"n 1", b"k 200", b"k 36"])
            receiver.wait_for(3)
            send(running.sources[SOURCE], [f"{key} 8".encode() for key in medium])
            send(running.sources[SOURCE], [largest] * 3)
            due += [output("l", 0)] * 2
            assert Counter(receiver.wait_for(len(due))) == Counter(due)
            running.wait_until_processed()
            listing = called("dead-letters", "list", "--json", "--state-dir", state)
            assert listing.returncode == 0, listing.stderr
            (letter,) = map(json.loads, listing.stdout.splitlines())
            assert (letter["step"], letter["key"]) == ("add", "'k'")
            assert (
                "state 'add': the entity takes 220.0 MiB when saved, and the limit is 64 M"
                in (letter["error"])
            )
            running.process.kill()
            running.wait(PATIENCE_S)

        looks = [f"{key} 0".encode() for key in ("k", "l", "n", *medium)]
        for restart in range(2):  # with what was published, then with what Spark has
            before = len(due) + restart * len(looks)
            with run(LARGE, receiver, state, options=SMALL) as running:
                send(running.sources[SOURCE], looks)
                found = receiver.wait_for(before + len(looks))
                assert Counter(found[before:]) == Counter(last)
                assert looked_up(running, "l")["entity"]["content"] == {"$bytes": ""}
                assert looked_up(running, "k")["error"].startswith("the entity takes 56.0 MiB")
                assert running.stop() == 0
