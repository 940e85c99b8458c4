"""Entities that refer to themselves, that cannot be saved, and that cannot be loaded."""

from __future__ import annotations

import json
import shutil
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.applications.misbehaving import add
from tests.helpers import MISBEHAVING
from tests.spark.harness import Receiver, called, run, send
from wallaroo.api.places import place_of
from wallaroo.cli.main import main
from wallaroo.testing import load, simulate

pytestmark = pytest.mark.spark

PLACE = f"application.py:{place_of(add).line}"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A directory with the application, beside which a test can make the file `closed`."""
    shutil.copy(MISBEHAVING, tmp_path / "application.py")
    return tmp_path


def by_key(outputs: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    found = defaultdict(list)
    for output in outputs:
        found[output[:1]].append(output)
    return found


def letters(state: Path) -> list[tuple[str, str, str]]:
    """Step, place and error of each dead letter."""
    command = ["dead-letters", "list", "--json", "--state-dir", str(state)]
    listing = CliRunner().invoke(main, command)
    found = [json.loads(line) for line in listing.stdout.splitlines()]
    return [(letter["step"], letter["place"], letter["error"]) for letter in found]


def process(
    app: Path, receiver: Receiver, texts: Sequence[str], outputs: int, *options: str
) -> list[bytes]:
    """What has come out, once *texts* are processed by a start of their own."""
    with run(app, receiver, app / "state", options=options) as running:
        send(running.sources["Texts"], [text.encode() for text in texts])
        receiver.wait_for(outputs)
        running.wait_until_processed()
        assert running.stop() == 0
    return receiver.wait_for(outputs)


def test_messages_that_spoil_entities_or_meet_ones_that_cannot_be_loaded_are_set_aside(
    app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    closed, state = app / "closed", app / "state"
    ending = ["a exit", "b become another program"]
    spoiling = ["a lock", "b lock", "a deep", "c lock"]
    twenty = ["a", "b"] * 20
    first = [*twenty[:15], *ending, *spoiling[:2], *twenty[15:], *spoiling[2:], "s", "s safe"]
    with Receiver("lines") as receiver:
        process(app, receiver, first, 42)
        found = letters(state)
        assert len(found) == 6, found
        assert {(step, place) for step, place, _ in found} == {("add", PLACE)}
        errors = sorted(error for _, _, error in found)
        assert errors[:2] == ["SkippedCall: the call ended its process (exit code 0)"] * 2
        assert "Unsavable: state 'shelf': state." in errors[2]
        assert "RecursionError" in errors[2]
        due = "Unsavable: state 'shelf': state.lock cannot be saved: TypeError: cannot pickle"
        assert all(error.startswith(due) for error in errors[3:])

        # the entity of s alone cannot be loaded
        closed.touch()
        process(app, receiver, ["a", "s", "b", "s"], 44)
        due = "state 'shelf', key 's': the entity, of class application.Shelf, cannot be loaded: "
        kept = f"Unloadable: {due}ValueError: the safe is closed; its saved data is kept"
        assert sorted(error for _, _, error in letters(state)) == sorted([*errors, kept, kept])
        exported = called("state", "export", app, "--state-dir", state)
        assert exported.returncode == 1
        assert due in exported.stderr
        assert {json.loads(line)["key"] for line in exported.stdout.splitlines()} == {"a", "b"}
        closed.unlink()

        again = ["a lock", *twenty, "s"]
        outputs = process(app, receiver, again, 85, "--on-error", "drop")
        assert len(letters(state)) == 8
    every = [text for text in first if text not in ending] + ["a", "b"] + again
    simulated = simulate(load(app), [("Texts", text.encode()) for text in every])
    assert by_key(outputs) == by_key(simulated.outputs)
    assert by_key(outputs)[b"a"] == [b"a %d\n" % count for count in range(1, 42)]
    assert by_key(outputs)[b"s"] == [b"s 1\n", b"s 2\n", b"s 3\n"]
    assert [message for _, _, message, _ in simulated.set_aside] == [*spoiling, "a lock"]
    for _, step, _, raised in simulated.set_aside:
        assert step == "add"
        assert raised.__notes__[0].endswith(PLACE)
