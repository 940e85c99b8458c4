"""Entities that refer to themselves, that cannot be saved, and that cannot be loaded."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.spark.harness import Receiver, called, run, send
from wallaroo.testing import load, simulate

pytestmark = pytest.mark.spark

APPLICATION = """
import os
import pathlib
import sys
import threading

import wallaroo

CLOSED = pathlib.Path(__file__).with_name("closed")


def application_setup(args):
    host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    builder = wallaroo.ApplicationBuilder("Books")
    builder.new_pipeline("Books", wallaroo.TCPSourceConfig(host, port, decode))
    builder.to_state_partition(add, Shelf, "shelf", key)
    builder.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode))
    return builder.build()


class Book:
    def __init__(self, owner):
        self.owner = owner

    def add(self):
        self.owner.count += 1


class Shelf:
    def __init__(self):
        self.count = 0
        self.book = Book(self)


class Safe:
    def __setstate__(self, state):
        if CLOSED.exists():
            raise ValueError("the safe is closed")
        vars(self).update(state)


class Node:
    def __init__(self, after):
        self.after = after


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload):
    return payload.decode()


@wallaroo.partition
def key(text):
    return text[0]


@wallaroo.state_computation(name="add")
def add(text, shelf):
    what = text[2:]
    if what == "exit":
        os._exit(0)
    if what == "become another program":
        os.execv(sys.executable, [sys.executable, "-c", ""])
    shelf.book.add()
    if what == "lock":
        shelf.lock = threading.Lock()
    if what == "deep":
        shelf.first = None
        for _ in range(20_000):
            shelf.first = Node(shelf.first)
    if what == "safe":
        shelf.safe = Safe()
        shelf.safe.content = 1
    return (f"{text[0]} {shelf.count}", True)


@wallaroo.encoder
def encode(text):
    return text + "\\n"
"""
PLACE = "application.py:" + str(APPLICATION.splitlines().index("def add(text, shelf):"))


def by_key(outputs: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    found = defaultdict(list)
    for output in outputs:
        found[output[:1]].append(output)
    return found


def letters(state: Path) -> list[tuple[str, str, str]]:
    """Step, place and error of each dead letter."""
    listing = called("dead-letters", "list", "--json", "--state-dir", state)
    found = [json.loads(line) for line in listing.stdout.splitlines()]
    return [(letter["step"], letter["place"], letter["error"]) for letter in found]


def process(
    app: Path, receiver: Receiver, texts: Sequence[str], outputs: int, *options: str
) -> list[bytes]:
    """What has come out, once *texts* are processed by a start of their own."""
    with run(app, receiver, app / "state", options=options) as running:
        send(running.sources["Books"], [text.encode() for text in texts])
        receiver.wait_for(outputs)
        running.wait_until_processed()
        assert running.stop() == 0
    return receiver.wait_for(outputs)


def test_messages_that_spoil_entities_are_set_aside_as_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "application.py").write_text(APPLICATION)
    state = tmp_path / "state"
    ending = ["a exit", "b become another program"]
    spoiling = ["a lock", "b lock", "a deep", "c lock"]
    twenty = ["a", "b"] * 20
    first = [*twenty[:15], *ending, *spoiling[:2], *twenty[15:], *spoiling[2:]]
    with Receiver("lines") as receiver:
        process(tmp_path, receiver, first, 40)
        found = letters(state)
        assert len(found) == 6, found
        assert {(step, place) for step, place, _ in found} == {("add", PLACE)}
        errors = sorted(error for _, _, error in found)
        assert errors[:2] == ["SkippedCall: the call ended its process (exit code 0)"] * 2
        assert "Unsavable: state 'shelf': state." in errors[2]
        assert "RecursionError" in errors[2]
        due = "Unsavable: state 'shelf': state.lock cannot be saved: TypeError: cannot pickle"
        assert all(error.startswith(due) for error in errors[3:])

        again = ["a lock", *twenty]
        outputs = process(tmp_path, receiver, again, 80, "--on-error", "drop")
        assert len(letters(state)) == 6
    every = [text for text in first if text not in ending] + again
    simulated = simulate(load(tmp_path), [("Books", text.encode()) for text in every])
    assert by_key(outputs) == by_key(simulated.outputs)
    assert by_key(outputs)[b"a"] == [b"a %d\n" % count for count in range(1, 41)]
    assert [message for _, _, message, _ in simulated.set_aside] == [*spoiling, "a lock"]
    for _, step, _, error in simulated.set_aside:
        assert step == "add"
        assert error.__notes__[0].endswith(PLACE)


def test_an_entity_that_cannot_be_loaded_stops_its_own_key_alone(tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(APPLICATION)
    closed, state = tmp_path / "closed", tmp_path / "state"
    with Receiver("lines") as receiver:
        process(tmp_path, receiver, ["a", "s", "s safe", "b"], 4)
        closed.touch()
        process(tmp_path, receiver, ["a", "s", "b", "s"], 6)
        due = "state 'shelf', key 's': the entity, of class application.Shelf, cannot be loaded: "
        errors = [error for _, _, error in letters(state)]
        error = f"Unloadable: {due}ValueError: the safe is closed; its saved data is kept"
        assert errors == [error] * 2
        exported = called("state", "export", tmp_path, "--state-dir", state)
        assert exported.returncode == 1
        assert due in exported.stderr
        assert {json.loads(line)["key"] for line in exported.stdout.splitlines()} == {"a", "b"}
        closed.unlink()
        outputs = process(tmp_path, receiver, ["a", "s"], 8)
    assert by_key(outputs)[b"s"] == [b"s 1\n", b"s 2\n", b"s 3\n"]
    assert by_key(outputs)[b"a"] == [b"a 1\n", b"a 2\n", b"a 3\n"]
