"""How Spark writes on an object store: exclusively where it must, and all or nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from typing import Any

import pytest

from tests.object_store.proxy import Proxy
from wallaroo.system.object_store import ObjectPath

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("jars")]
WRITERS, NAMES = 6, 12


def written(folder: ObjectPath, writers: int = 1, names: int = 1) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.object_store.writers", str(folder)]
    command += [str(writers), str(names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_of_several_writers_of_a_name_one_wins(folder: ObjectPath) -> None:
    found = written(folder, WRITERS, NAMES)
    winners = defaultdict(list)
    for name, writer, outcome in found["outcomes"]:
        assert outcome in (None, "FileAlreadyExistsException")
        if outcome is None:
            winners[name].append(writer)
    for name in range(NAMES):
        (winner,) = winners[name]
        assert (folder / "raced" / str(name)).read_text() == str(winner)
    assert not (folder / "cancelled").exists()
    assert not (folder / "cancelled-too").exists()
    assert (folder / "replaced").read_text() == "second"
    assert found["claims"] == ["a", "a", "c"]


def test_a_write_whose_answer_is_lost_is_no_win_of_another(
    folder: ObjectPath, network: Proxy
) -> None:
    lost = ["lost", "SlowDown", "InternalError"]
    network.fail(
        lambda method, path: lost.pop() if lost and method == "PUT" and "/raced/" in path else None
    )
    ((_, _, outcome),) = written(folder)["outcomes"]
    assert network.faults.total() == 3
    # the repeated request finds what it has written: Spark starts the query again, and reads it
    assert outcome == "FileAlreadyExistsException"
    assert (folder / "raced" / "0").read_text() == "0"
