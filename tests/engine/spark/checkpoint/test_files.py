"""Spark's own files in a checkpoint: what is damaged is named before a start."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from wallaroo.engine.realtime.checkpoint import progress_of
from wallaroo.engine.spark.checkpoint.files import check_files
from wallaroo.errors import RESTORE, DamagedFile

CONF = {"batchWatermarkMs": 0, "conf": {"spark.sql.shuffle.partitions": "2"}}
PLACE = {"offset": 4, "chunk": 4, "opening": None, "imported": None}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint of two epochs that are committed, and one that is not; older ones are gone."""
    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
    (tmp_path / "metadata").write_text('{"id":"bc1071e6-8860-4bda-83e0-d3a64ae5d2c1"}')
    for number in (7, 8, 9):
        lines = ["v1", json.dumps(CONF), json.dumps(PLACE)]
        (tmp_path / "offsets" / str(number)).write_text("\n".join(lines))
        if number < 9:
            commit = f"v{number - 6}\n" + json.dumps({"nextBatchWatermarkMs": 0})
            (tmp_path / "commits" / str(number)).write_text(commit)
    return tmp_path


def test_files_that_spark_wrote_are_accepted(checkpoint: Path, tmp_path: Path) -> None:
    check_files(checkpoint)
    check_files(tmp_path / "none")
    (checkpoint / "commits" / "9").write_text('v1\n{"nextBatchWatermarkMs":0}')
    check_files(checkpoint)
    for name in ("offsets/7", "commits/7"):  # Spark removes old ones
        (checkpoint / name).unlink()
    check_files(checkpoint)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def zeros(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def garble(file: Path) -> None:
    file.write_bytes(b"\xff" * file.stat().st_size)


@pytest.mark.parametrize("damage", [cut, empty, zeros, garble, Path.unlink])
@pytest.mark.parametrize("name", ["metadata", "offsets/8", "offsets/9", "commits/8"])
def test_a_file_that_is_damaged_or_missing_is_named(
    checkpoint: Path,
    name: str,
    damage: Callable[[Path], None],
) -> None:
    if (name, damage) == ("offsets/9", Path.unlink):
        (checkpoint / "commits" / "9").write_text('v1\n{"nextBatchWatermarkMs":0}')
    damage(checkpoint / name)
    with pytest.raises(DamagedFile) as raised:
        progress_of(checkpoint)
    told = str(raised.value)
    assert told.startswith(f"{checkpoint / name} is damaged: ")
    assert told.endswith(RESTORE)
    assert "\n" not in told


def test_what_does_not_say_what_it_should_is_damaged(checkpoint: Path) -> None:
    for name, text, problem in (
        ("metadata", "{}", "it does not name a query"),
        ("offsets/9", "v1\n{}\n{}", "it lacks the settings of the epoch"),
        ("offsets/9", f"v1\n{json.dumps(CONF)}\n{{}}", "it lacks the position in the journal"),
        ("offsets/9", f"v1\n{json.dumps(CONF)}", "it is incomplete"),
        ("commits/8", "v1\n[]", "it does not describe an epoch"),
    ):
        file = checkpoint / name
        before = file.read_text()
        file.write_text(text)
        with pytest.raises(DamagedFile, match=f"is damaged: {problem}; "):
            check_files(checkpoint)
        file.write_text(before)
    check_files(checkpoint)
