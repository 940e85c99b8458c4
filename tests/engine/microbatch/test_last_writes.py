"""Which batch wrote a log last is known outside the state store, whatever is repeated or lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from wallaroo.engine.microbatch.last_writes import _of_batch, last_written, note_written
from wallaroo.errors import DamagedFile


def written(checkpoint: Path, batch: int) -> list[int | None]:
    """What a process that starts in *batch* finds for the first three buckets."""
    _of_batch.cache_clear()
    return [last_written(checkpoint, batch, 1, slot) for slot in range(3)]


def test_each_batch_knows_what_those_before_it_have_written(tmp_path: Path) -> None:
    assert written(tmp_path, 0) == [None, None, None]
    note_written(tmp_path, 0, ["1:0", "1:1"])
    assert written(tmp_path, 1) == [0, 0, None]
    note_written(tmp_path, 1, ["1:1", "1:2"])
    assert written(tmp_path, 2) == [0, 1, 1]
    assert written(tmp_path, 5) == [0, 1, 1]  # batches without messages note nothing


def test_a_batch_that_is_repeated_may_write_other_logs(tmp_path: Path) -> None:
    note_written(tmp_path, 0, ["1:0", "1:1"])
    note_written(tmp_path, 1, ["1:1"])
    assert written(tmp_path, 1) == [0, 0, None]
    note_written(tmp_path, 1, ["1:2"])
    assert written(tmp_path, 2) == [0, 0, 1]


def test_of_batches_that_a_power_failure_took_nothing_is_expected(tmp_path: Path) -> None:
    for batch in range(4):
        note_written(tmp_path, batch, ["1:0"])
    assert written(tmp_path, 2) == [None, None, None]


def test_a_changed_file_is_told(tmp_path: Path) -> None:
    note_written(tmp_path, 0, ["1:0"])
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text().replace('"batch": 0', '"batch": 1'))
    with pytest.raises(DamagedFile, match=r"last-writes\.json is damaged"):
        written(tmp_path, 1)
