"""`wallaroo state`: the entities of an application that runs, and of one that is stopped."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.helpers import processes_below, wait_until
from tests.spark.harness import APPS, PATIENCE_S, Receiver, called, run, send
from wallaroo.errors import RuntimeFailure

pytestmark = pytest.mark.spark

APP = str(APPS / "word_count")
KIND = {"$class": "application:WordTotals"}
SOURCE = "Split and Count"
NAME = "Zustände 100%41 #1 [a] {b}"
"""A state directory may have any name."""


def state(command: str, *arguments: str) -> str:
    done = called("state", command, APP, *arguments)
    assert done.returncode == 0, done.stderr
    if command != "import":
        assert done.stderr == ""
    return done.stdout


def words(export: str) -> dict[str, Any]:
    """The totals that an export tells of."""
    found: dict[str, Any] = {}
    for told in map(json.loads, export.splitlines()):
        found |= told["entity"]["word_totals"]
    return found


def asked(query: str, *at: str) -> list[Any]:
    """The rows that `wallaroo sql` returns for *query*."""
    done = called("sql", APP, query, "--format", "json", *at)
    assert (done.returncode, done.stderr) == (0, "")
    return list(map(json.loads, done.stdout.splitlines()))


def test_entities_are_told_while_the_application_runs_and_when_it_is_stopped(
    tmp_path: Path,
) -> None:
    at = ("--state-dir", str(tmp_path / NAME))
    with (
        Receiver("lines") as receiver,
        run(APPS / "word_count", receiver, tmp_path / NAME) as running,
    ):
        for words in (9, 18):  # when the second batch begins, the first one is committed
            send(running.sources[SOURCE], [b"one two two"] * 3)
            receiver.wait_for(words)
            running.wait_until_processed()
        shown = json.loads(state("show", "t", *at))
        query = """SELECT word_totals['two'] AS two FROM "word totals" WHERE key = 't'"""
        (row,) = asked(query, *at)
        assert running.stop() == 0
    assert shown["key"] == "t"
    assert shown["entity"]["word_totals"]["two"] in {6, 12}
    assert row["two"] in {6, 12}
    assert asked(query, *at) == [{"two": 12}]
    export = state("export", *at)
    entities = {told["key"]: told["entity"] for told in map(json.loads, export.splitlines())}
    assert entities == {
        "o": {**KIND, "word_totals": {"one": 6}},
        "t": {**KIND, "word_totals": {"two": 12}},
    }


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


@pytest.fixture(scope="module")
def killed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a killed run: the state store lacks what was published in its one epoch."""
    directory = tmp_path_factory.mktemp("killed") / "state"
    with (
        pytest.MonkeyPatch.context() as patch,
        Receiver("lines") as receiver,
    ):
        patch.setenv("WALLAROO_PACE", "quiet_s=600,epoch_first_s=600")  # it ends at a stop only
        with run(APPS / "word_count", receiver, directory) as running:
            send(running.sources[SOURCE], [b"one two two"] * 3)
            receiver.wait_for(9)
            parts = processes_below(running.process.pid)
            running.process.kill()
            running.process.wait()
            wait_until(lambda: not any(map(psutil.pid_exists, parts)), "the end of its parts")
    return directory


@pytest.fixture
def killed(killed_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, where epochs end at a stop only."""
    monkeypatch.setenv("WALLAROO_PACE", "quiet_s=600,epoch_first_s=600")
    return shutil.copytree(killed_once, tmp_path / "killed")


def test_the_state_of_a_killed_application_is_what_its_outputs_say(killed: Path) -> None:
    at = ("--state-dir", str(killed))
    assert words(state("export", *at)) == {"one": 3, "two": 6}
    assert json.loads(state("show", "t", *at))["entity"]["word_totals"] == {"two": 6}
    assert asked('SELECT * FROM "word totals" ORDER BY key', *at) == [
        {"key": "o", "word_totals": {"one": 3}},
        {"key": "t", "word_totals": {"two": 6}},
    ]


def test_the_state_of_a_killed_application_is_not_changed(killed: Path, tmp_path: Path) -> None:
    at = ("--state-dir", str(killed))
    file = written(tmp_path / "file")
    addresses = ("--in", "127.0.0.1:0", "--out", "127.0.0.1:9")
    copy = tmp_path / "copy"
    shutil.copytree(killed, copy, ignore=shutil.ignore_patterns("log", "log-mark"))
    for command in (
        ("state", "import", APP, file, *at),
        ("repartition", APP, *addresses, *at, "--partitions", "4"),
        ("state", "export", APP, "--state-dir", copy),
    ):
        refused = called(*command)
        assert refused.returncode == 1
        assert "start it once more, stop it cleanly" in refused.stderr


def test_a_killed_application_goes_on_with_its_state(killed: Path, tmp_path: Path) -> None:
    at = ("--state-dir", str(killed))
    with Receiver("lines") as receiver:
        with run(APPS / "word_count", receiver, killed) as running:
            assert running.stop() == 0
        log = killed / "log"
        log.rename(tmp_path / "elsewhere")  # Spark has all of it now
        assert words(state("export", *at)) == {"one": 3, "two": 6}
        (tmp_path / "elsewhere").rename(log)
        state("import", str(written(tmp_path / "file")), *at)
        with run(APPS / "word_count", receiver, killed) as running:
            send(running.sources[SOURCE], [b"one apple"])
            due = {b"one => 4\n", b"apple => 4\n"}  # others may come twice after a kill
            wait_until(lambda: due <= set(receiver.messages), "the outputs", PATIENCE_S)
            assert running.stop() == 0
    assert words(state("export", *at)) == {"one": 4, "two": 6, "apple": 4}


def written(file: Path) -> Path:
    """*file*, with an entity to import."""
    told = {"state": "word totals", "key": "a", "entity": {**KIND, "word_totals": {"apple": 3}}}
    file.write_text(json.dumps(told))
    return file
