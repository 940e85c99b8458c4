"""The state of a killed application: what Spark has, changed by what is published after it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.engine.realtime.test_checkpoint import committed
from tests.golden import ALL
from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime import offline_state
from wallaroo.engine.realtime.checkpoint import note_begun
from wallaroo.engine.realtime.offline_state import StoppedState
from wallaroo.engine.stored import SavedState, StateLayout
from wallaroo.wire.chunk_messages import CheckpointPosition


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
    logged: list[list[bytes]],
    records: list[bytes],
) -> SavedState:
    """The state of which Spark has *logged*, and the outbox *records*."""
    committed(directory, 3, CheckpointPosition(50, 5))
    note_begun(directory, CheckpointPosition(50, 5))

    def read_logs(_session: Any, _path: Path, epoch: int) -> list[list[bytes]]:
        assert epoch == 3
        return logged

    monkeypatch.setattr(offline_state, "read_logs", read_logs)
    monkeypatch.setattr(StoppedState, "_session", lambda _self: None)
    layout = StateLayout("application", 2, 16, directory, lambda _run, _after: records)
    return StoppedState(layout).saved(program)


def test_later_changes_take_the_place_of_what_spark_has(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = [[record({"a": 1, "b": 1})], [record({"c": 1, "d": 1})]]
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
    damaged = record({"a": Unloadable(), "b": Unloadable(), "c": Unloadable()})
    late = record({"d": Unloadable(), "a": 1})
    monkeypatch.setattr(Unloadable, "loads", False)
    state = state_of(program, tmp_path, monkeypatch, [[damaged]], [late])
    assert list(state.entities()) == [("totals", "a", 1)]
    assert sorted(one.key for one in state.unloaded) == ["b", "c", "d"]
