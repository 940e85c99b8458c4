"""A checkpoint whose last epoch is divided otherwise than the state is not started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from wallaroo.errors import RESTORE, UsageError
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.state.start_check import LocalFiles, agree

PLACE = {"offset": 0, "chunk": 0, "opening": None, "imported": None}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    """A state of two partitions, of which nothing is processed."""
    directory = StateDirectory(tmp_path, "app", 2)
    yield directory
    directory.close()


def plan(state: StateDirectory, partitions: int) -> None:
    """Write the files of a first epoch of *partitions* partitions as Spark does."""
    for log in ("offsets", "commits"):
        (state.checkpoint / log).mkdir(parents=True, exist_ok=True)
    (state.checkpoint / "metadata").write_text('{"id":"bc1071e6-8860-4bda-83e0-d3a64ae5d2c1"}')
    settings = {"conf": {"spark.sql.shuffle.partitions": str(partitions)}}
    lines = ["v1", json.dumps(settings), json.dumps(PLACE)]
    (state.checkpoint / "offsets" / "0").write_text("\n".join(lines))
    (state.checkpoint / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_another_number_of_partitions_in_the_last_epoch_is_refused(state: StateDirectory) -> None:
    """Spark would look for keys in partitions where they are not."""
    agree(state, LocalFiles(state.path))
    plan(state, 2)
    agree(state, LocalFiles(state.path))
    for partitions, told_as in ((1, "1 partition"), (3, "3 partitions")):
        plan(state, partitions)
        problem = f"has {told_as}, and the state has 2: if a change of the number"
        with pytest.raises(UsageError, match=problem) as told:
            agree(state, LocalFiles(state.path))
        assert str(told.value).endswith(RESTORE)
