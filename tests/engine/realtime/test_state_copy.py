"""Notes of a small state, from which commands read it without Spark."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner

from tests.engine.realtime.harness import (
    RunningQuery,
    Store,
    gateway_side,
    submit,
    wait_until_processed,
)
from tests.engine.realtime.test_checkpoint import committed
from tests.engine.realtime.test_exactly_once import two_states
from tests.golden import ALL
from wallaroo.cli.main import main
from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime import state_copy as notes
from wallaroo.engine.realtime.checkpoint import note_begun
from wallaroo.engine.realtime.offline_state import StoppedState
from wallaroo.engine.realtime.partition_state import PartitionState
from wallaroo.engine.realtime.state_copy import note, noted
from wallaroo.engine.spark.java import Java
from wallaroo.engine.stored import SavedState, StateLayout
from wallaroo.model.application import Application
from wallaroo.run.state.directory import StateDirectory
from wallaroo.testing import load
from wallaroo.wire.chunk_messages import CheckpointPosition


@pytest.fixture
def program() -> Program:
    return Program(ALL["plain"].application.load(), 16)


def put(directory: Path, partition: int, entities: dict[Any, Any], chunk: int = 5) -> None:
    note(directory, partition, 2, chunk, holding("totals", entities))


def holding(name: str, entities: dict[Any, Any]) -> PartitionState:
    """A partition with *entities* of the only state."""
    state = PartitionState(EntitySerializer([name]), lambda _number, _key: 0, lambda _key: 0)
    state.bucket.entities[0] |= entities
    return state


@pytest.fixture
def noted_at_5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint of two partitions whose last commit is at chunk 5, which is noted."""
    monkeypatch.setattr(StoppedState, "_session", no_java)
    committed(tmp_path, 3, CheckpointPosition(50, 5))
    put(tmp_path, 0, {"a": 1})
    put(tmp_path, 1, {"b": 2, "c": 3})
    return tmp_path


def no_java(*_arguments: object) -> NoReturn:
    raise AssertionError


def test_state_that_is_noted_is_read_without_spark_with_what_was_published_since(
    noted_at_5: Path, program: Program
) -> None:
    note_begun(noted_at_5, CheckpointPosition(50, 5))
    later = EntitySerializer(["totals"]).record(Changes([{"b": 7, "d": 4}], [{"c"}]))
    layout = StateLayout("application", 2, 16, noted_at_5, lambda _run, _after: [later])
    state = StoppedState(layout).saved(program)
    assert state.commit is not None
    assert sorted(state.entities()) == [("totals", "a", 1), ("totals", "b", 7), ("totals", "d", 4)]
    assert state.unloaded == []
    assert state.time_of("totals", "a") is None


def without_one(directory: Path) -> None:
    (directory / "noted" / "1").unlink()


def of_an_earlier_chunk(directory: Path) -> None:
    put(directory, 1, {"b": 2}, chunk=4)


def damaged(directory: Path) -> None:
    file = directory / "noted" / "1"
    file.write_bytes(file.read_bytes()[:-1])


def empty(directory: Path) -> None:
    (directory / "noted" / "0").write_bytes(b"")


@pytest.mark.parametrize("change", [without_one, of_an_earlier_chunk, damaged, empty])
def test_spark_is_asked_unless_all_notes_are_of_the_last_commit(
    change: Callable[[Path], None], noted_at_5: Path, program: Program
) -> None:
    assert noted(noted_at_5, 2, CheckpointPosition(50, 5)) is not None
    assert noted(noted_at_5, 1, CheckpointPosition(50, 5)) is None  # before other partitions
    assert (
        noted(noted_at_5, 2, CheckpointPosition(50, 5, imported="file")) is None
    )  # before an import
    change(noted_at_5)
    layout = StateLayout("application", 2, 16, noted_at_5, lambda _run, _after: [])
    with pytest.raises(AssertionError):
        StoppedState(layout).saved(program)


def test_a_large_state_is_not_noted(noted_at_5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "_MOST_ENTITIES", 1)
    put(noted_at_5, 1, {"b": 2, "c": 3})
    assert not (noted_at_5 / "noted" / "1").exists()
    with_another = holding("totals", {"b": 2})
    with_another.apply(EntitySerializer(["gone"]).record(Changes([{"d": 4}], [set()])))
    note(noted_at_5, 0, 2, 5, with_another)
    assert not (noted_at_5 / "noted" / "0").exists()
    monkeypatch.setattr(notes, "_MOST_BYTES", 100)
    put(noted_at_5, 0, {"a": "x" * 200})
    assert not (noted_at_5 / "noted" / "0").exists()


def test_entities_that_cannot_be_saved_or_written_leave_no_note_of_that_chunk(
    noted_at_5: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> NoReturn:
        raise OSError

    put(noted_at_5, 0, {"a": lambda: None})
    assert not (noted_at_5 / "noted" / "0").exists()
    monkeypatch.setattr(os, "open", full)
    put(noted_at_5, 1, {"b": 3}, chunk=6)
    assert json.loads((noted_at_5 / "noted" / "1").read_bytes().splitlines()[0])["chunk"] == 5


def test_a_query_notes_its_state_at_the_end_of_an_epoch(tmp_path: Path) -> None:
    application, store = two_states(), Store()
    with (
        gateway_side(tmp_path, application) as gateway,
        RunningQuery(gateway, application, store, tmp_path / "c", 1, 2, 4) as query,
    ):
        for payloads in ([b"ax", b"by"], [b"ay", b"ax"]):
            submit(gateway, application, [("in", payload) for payload in payloads])
            query.feed.finish_epoch()
        wait_until_processed(gateway, 4)
        query.feed.finish_epoch()
        place = CheckpointPosition.from_json(store.place)
    found = list(noted_state(tmp_path / "c", place, application).entities())
    assert {(name, key): entity.seen for name, key, entity in found} == {
        ("number", "a"): 3,
        ("number", "b"): 1,
        ("number again", "x"): 2,
        ("number again", "y"): 2,
    }


def noted_state(
    checkpoint: Path, place: CheckpointPosition, application: Application
) -> SavedState:
    """What two partitions have noted at *place*, as *application* reads it."""
    records = noted(checkpoint, 2, place)
    assert records is not None
    serializer = EntitySerializer.of(Program(application, 4))
    return SavedState(serializer, [serializer.read(records)], None)


def test_a_query_notes_also_the_entities_of_a_state_that_its_application_lacks(
    tmp_path: Path,
) -> None:
    both, only_one, store = two_states(), two_states(only_one=True), Store()
    with gateway_side(tmp_path, both) as gateway:
        for attempt, application in enumerate([both, only_one], 1):
            with RunningQuery(gateway, application, store, tmp_path / "c", attempt, 2, 4) as query:
                submit(gateway, application, [("in", b"ax"), ("in", b"by")])
                wait_until_processed(gateway, 2 * attempt)
                query.feed.finish_epoch()
    place = CheckpointPosition.from_json(store.place)
    found = list(noted_state(tmp_path / "c", place, both).entities())
    assert {(name, key): entity.seen for name, key, entity in found} == {
        ("number", "a"): 2,
        ("number", "b"): 2,
        ("number again", "x"): 1,
        ("number again", "y"): 1,
    }
    without = noted_state(tmp_path / "c", place, only_one)
    assert len(list(without.entities())) == 2
    assert without.others == {"number again": 2}


def test_the_command_shows_a_noted_state_and_starts_no_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = CliRunner()
    directory = tmp_path / "sums"
    made = runner.invoke(main, ["new", "sums", "--directory", str(directory)])
    assert made.exit_code == 0, made.output
    opened = StateDirectory(directory / ".wallaroo" / "sums", "sums", 1)
    with contextlib.closing(opened) as state:
        state.checkpoint.mkdir(exist_ok=True)
        (state.checkpoint / "metadata").write_text(json.dumps({"id": "the query"}))
        committed(state.checkpoint, 0, CheckpointPosition(3, 5), partitions=1)
        total = load(str(directory)).partitions["add up"].new_entity()
        total.amount = 8
        note(state.checkpoint, 0, 1, 5, holding("add up", {"apples": total}))
    monkeypatch.setattr(Java, "__init__", no_java)
    shown = runner.invoke(main, ["state", "show", str(directory), "apples"])
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.output)["entity"]["amount"] == 8
