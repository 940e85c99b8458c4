"""The epochs of a checkpoint, and what a killed Spark has left unfinished of them."""

from __future__ import annotations

from pathlib import Path

from wallaroo.engine.spark.checkpoint.epochs import remove_leftovers


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
