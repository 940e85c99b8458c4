"""What a killed Spark has left unfinished in a checkpoint."""

from __future__ import annotations

from pathlib import Path

from wallaroo.engine.spark.checkpoint.leftovers import remove_leftovers, remove_uncommitted_state


def test_unfinished_files_of_the_logs_are_removed(tmp_path: Path) -> None:
    finished = {"offsets/0", "commits/0", "state/0/0/.1.delta.tmp"}
    unfinished = {"offsets/.1.e5787619.tmp", "commits/.1.3f2504e0.tmp"}
    for name in finished | unfinished:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    remove_leftovers(tmp_path)
    left = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert left == finished
    remove_leftovers(tmp_path / "not there")


def test_state_of_a_batch_that_was_not_committed_is_removed(tmp_path: Path) -> None:
    names = ["9.zip", "10.changelog", "11.changelog", "11.zip", "12.changelog", "12.zip"]
    kept = {"9.zip", "10.changelog", "11.changelog", "11.zip", "12_3f.zip", "13.sst"}
    for partition in ("0/0", "0/1", "1/0"):
        folder = tmp_path / "state" / partition
        folder.mkdir(parents=True)
        for name in (*names, *kept):
            (folder / name).touch()
    (tmp_path / "commits").mkdir()
    for batch in ("9", "10", ".11.5d.tmp"):
        (tmp_path / "commits" / batch).touch()
    remove_uncommitted_state(tmp_path)
    remove_uncommitted_state(tmp_path / "not there")
    for partition in ("0/0", "0/1", "1/0"):
        found = {file.name for file in (tmp_path / "state" / partition).iterdir()}
        assert found == kept
