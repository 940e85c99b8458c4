"""Which batch wrote a log last is known outside the state store, whatever is repeated or lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from wallaroo.dataflow.bucket_logs import Expected, Written
from wallaroo.engine.microbatch.last_writes import _of_batch, last_written, note_written
from wallaroo.errors import DamagedFile
from wallaroo.system.sealed import sealed


def note(checkpoint: Path, batch: int, *logs: str) -> None:
    """Note what *batch* has written, with sums that tell the batch."""
    note_written(checkpoint, batch, dict.fromkeys(logs, 100 + batch))


def written(checkpoint: Path, batch: int) -> list[int | None]:
    """What a process that starts in *batch* finds for the first three buckets."""
    _of_batch.cache_clear()
    found = [last_written(checkpoint, batch, 1, slot).last for slot in range(3)]
    assert all(one is None or one.sum == 100 + one.at for one in found)
    return [None if one is None else one.at for one in found]


def test_each_batch_knows_what_those_before_it_have_written(tmp_path: Path) -> None:
    assert written(tmp_path, 0) == [None, None, None]
    note(tmp_path, 0, "1:0", "1:1")
    assert written(tmp_path, 1) == [0, 0, None]
    note(tmp_path, 1, "1:1", "1:2")
    assert written(tmp_path, 2) == [0, 1, 1]
    assert written(tmp_path, 5) == [0, 1, 1]  # batches without messages note nothing


def test_a_batch_that_is_repeated_may_write_other_logs(tmp_path: Path) -> None:
    note(tmp_path, 0, "1:0", "1:1")
    note(tmp_path, 1, "1:1")
    assert written(tmp_path, 1) == [0, 0, None]
    note(tmp_path, 1, "1:2")
    assert written(tmp_path, 2) == [0, 0, 1]


def test_of_batches_that_a_power_failure_took_nothing_is_expected(tmp_path: Path) -> None:
    for batch in range(4):
        note(tmp_path, batch, "1:0")
    assert written(tmp_path, 2) == [None, None, None]


def noted(checkpoint: Path, batch: int) -> list[int]:
    """The batches of which a process that starts in *batch* knows all writes."""
    _of_batch.cache_clear()
    return list(last_written(checkpoint, batch, 1, 0).noted)


def test_batches_that_follow_each_other_are_noted_completely(tmp_path: Path) -> None:
    assert noted(tmp_path, 0) == []
    for batch in range(3):
        note(tmp_path, batch, "1:0")
    assert noted(tmp_path, 3) == [0, 1, 2]
    assert noted(tmp_path, 2) == [0, 1]  # it is repeated, and may write other logs
    note(tmp_path, 2)
    assert noted(tmp_path, 3) == [0, 1, 2]
    assert noted(tmp_path, 1) == []


def test_a_batch_that_was_not_noted_is_a_gap(tmp_path: Path) -> None:
    note(tmp_path, 0, "1:0")
    note(tmp_path, 2, "1:0")  # 1 was an import, or a power failure took the newer file
    assert noted(tmp_path, 2) == []
    assert noted(tmp_path, 3) == [2]
    note(tmp_path, 3, "1:0")
    assert noted(tmp_path, 4) == [2, 3]


def test_batches_that_run_again_after_a_power_failure_write_their_logs_anew(
    tmp_path: Path,
) -> None:
    for batch, logs in enumerate((["1:0", "1:1", "1:2"], ["1:0"], ["1:1"], ["1:2"])):
        note(tmp_path, batch, *logs)
    note(tmp_path, 1, "1:2")  # its checkpoint is as before batch 1
    assert written(tmp_path, 2) == [None, None, 1]
    assert noted(tmp_path, 2) == [1]


def test_a_file_without_sums_tells_the_batches(tmp_path: Path) -> None:
    noted = {"batch": 3, "before": {"1:0": 1}, "after": {"1:0": 1, "1:1": 3}}
    (tmp_path / "last-writes.json").write_text(sealed(noted))
    _of_batch.cache_clear()
    assert last_written(tmp_path, 4, 1, 1) == Expected(Written(3, None), range(4, 4))
    assert last_written(tmp_path, 3, 1, 0).last == Written(1, None)


def test_a_changed_file_is_told(tmp_path: Path) -> None:
    note(tmp_path, 0, "1:0")
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text().replace('"batch": 0', '"batch": 1'))
    with pytest.raises(DamagedFile, match=r"last-writes\.json is damaged"):
        written(tmp_path, 1)
