"""`wallaroo state`: the entities of an application that runs, and of one that is stopped."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.spark.harness import APPS, Receiver, called, run, send
from wallaroo.errors import RuntimeFailure

pytestmark = [pytest.mark.spark, pytest.mark.timeout(480)]

APP = str(APPS / "word_count")
KIND = {"$class": "application:WordTotals"}


def state(command: str, *arguments: str) -> str:
    done = called("state", command, APP, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_entities_are_told_while_the_application_runs_and_carried_when_it_is_stopped(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    at = ("--state-dir", str(first))
    with Receiver("lines") as receiver, run(APPS / "word_count", receiver, first) as running:
        for words in (9, 18):  # when the second batch begins, the first one is committed
            send(running.sources["Split and Count"], [b"one two two"] * 3)
            receiver.wait_for(words)
            running.wait_until_processed()
        shown = json.loads(state("show", "t", *at))
        assert running.stop() == 0
    assert shown["key"] == "t"
    assert shown["entity"]["word_totals"]["two"] in {6, 12}
    export = state("export", *at)
    entities = {told["key"]: told["entity"] for told in map(json.loads, export.splitlines())}
    assert entities == {
        "o": {**KIND, "word_totals": {"one": 6}},
        "t": {**KIND, "word_totals": {"two": 12}},
    }

    file = tmp_path / "export"
    file.write_text(export)
    options = ("--partitions", "4")
    state("import", str(file), "--state-dir", str(second), *options)
    with (
        Receiver("lines") as receiver,
        run(APPS / "word_count", receiver, second, options=options) as running,
    ):
        send(running.sources["Split and Count"], [b"one two three", b"two"])
        outputs = receiver.wait_for(4)
        assert running.stop() == 0
    assert sorted(map(bytes.strip, outputs)) == [
        b"one => 7",
        b"three => 1",
        b"two => 13",
        b"two => 14",
    ]


def test_an_import_that_was_broken_off_is_ended_and_is_not_done_twice(tmp_path: Path) -> None:
    file, directory = tmp_path / "export", tmp_path / "state"
    told = {"state": "word totals", "key": "a", "entity": {**KIND, "word_totals": {"apple": 3}}}
    file.write_text(json.dumps(told))
    to = (str(file), "--state-dir", str(directory))
    state("import", *to)
    # as after a kill in its midst
    (directory / "checkpoint" / "commits" / "0").unlink()
    (directory / "import").write_text(hashlib.sha256(file.read_bytes()).hexdigest())
    with (
        Receiver("lines") as receiver,
        pytest.raises(RuntimeFailure, match=r"an import into .* is unfinished"),
        run(APPS / "word_count", receiver, directory),
    ):
        pass
    state("import", *to)
    file.write_text(json.dumps(told | {"entity": {**KIND, "word_totals": {"apple": 4}}}))
    refused = called("state", "import", APP, *to)
    assert refused.returncode == 2
    assert "already has an entity with key 'a': use --replace" in refused.stderr
    state("import", *to, "--replace")
    assert json.loads(state("show", "a", "--state-dir", str(directory)))["entity"] == {
        **KIND,
        "word_totals": {"apple": 4},
    }
