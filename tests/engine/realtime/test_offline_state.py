"""The state of a killed application: what Spark has, changed by what is published after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tests.engine.realtime.test_checkpoint import committed
from tests.golden import ALL
from wallaroo.dataflow.buckets import Changes, Unloaded
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime.checkpoint import note_begun
from wallaroo.engine.realtime.offline_state import PublishedState
from wallaroo.engine.spark.checkpoint import saved_state
from wallaroo.engine.stored import StateLayout
from wallaroo.wire.chunk_messages import CheckpointPosition

Found = Sequence[tuple[str, Mapping[Any, Any], Sequence[Unloaded]]]


class Unloadable:
    """Cannot be loaded once it is saved."""

    loads = True

    def __setstate__(self, state: object) -> None:
        if not self.loads:
            raise ValueError

    def __getstate__(self) -> object:
        return 1


@pytest.fixture
def program() -> Program:
    return Program(ALL["plain"].application.load(), 16)


def record(changed: Mapping[Any, Any], *forgotten: Any) -> bytes:
    return EntitySerializer(["totals"]).record(Changes([dict(changed)], [set(forgotten)]))


def state_of(
    program: Program,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    logged: Found,
    records: list[bytes],
) -> PublishedState:
    """The state of which Spark has *logged*, and the outbox *records*."""
    committed(directory, 3, CheckpointPosition(50, 5))
    note_begun(directory, CheckpointPosition(50, 5))

    def read_state(_session: Any, _path: Path, epoch: int, _serializer: Any) -> Iterator[Any]:
        assert epoch == 3
        yield from ((*one, {}) for one in logged)

    monkeypatch.setattr(saved_state, "read_state", read_state)
    layout = StateLayout("application", 2, 16, directory, lambda _run, _after: records)
    return PublishedState(lambda: cast("Any", None), layout, program)


def test_later_changes_take_the_place_of_what_spark_has(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: Found = [("totals", {"a": 1, "b": 1}, []), ("totals", {"c": 1, "d": 1}, [])]
    records = [
        record({"a": 2, "b": 2}),
        record({"a": 3, "new": 3}, "c"),
        record({}, "b", "gone"),
        record({"gone": 4}),
    ]
    state = state_of(program, tmp_path, monkeypatch, logged, records)
    assert state.commit is not None
    assert state.commit.epoch == 3
    found = list(state.entities())
    assert len(found) == 4
    assert {(name, key): entity for name, key, entity in found} == {
        ("totals", "a"): 3,
        ("totals", "d"): 1,
        ("totals", "new"): 3,
        ("totals", "gone"): 4,
    }


def test_what_cannot_be_loaded_is_told_unless_it_was_replaced(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = EntitySerializer(["totals"])
    damaged = record({"a": Unloadable(), "b": Unloadable(), "c": Unloadable()})
    late = record({"d": Unloadable(), "a": 1})
    monkeypatch.setattr(Unloadable, "loads", False)
    unloaded = list(first.read([damaged]).unloaded.values())
    assert {one.key for one in unloaded} == {"a", "b", "c"}
    state = state_of(program, tmp_path, monkeypatch, [("totals", {}, unloaded)], [late])
    assert list(state.entities()) == [("totals", "a", 1)]
    assert sorted(one.key for one in state.unloaded) == ["b", "c", "d"]
