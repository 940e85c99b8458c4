"""A state directory has one owner at a time, and one application for its life."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from wallaroo.errors import RESTORE, DamagedFile, RuntimeFailure, UsageError
from wallaroo.run.state.directory import StateDirectory, readable_checkpoint
from wallaroo.system import lockfile


def test_what_is_fixed_at_first_stays(tmp_path: Path) -> None:
    first = StateDirectory(tmp_path / "state", "app", 4)
    fixed = first.fixed
    first.close()
    again = StateDirectory(tmp_path / "state", "app", 2)
    assert again.fixed == fixed
    assert again.fixed.partitions == 4
    again.close()


@pytest.mark.parametrize("left", ["", "{", "[1]", "7"])
def test_a_damaged_file_is_told_with_what_to_do(tmp_path: Path, left: str) -> None:
    StateDirectory(tmp_path, "app", 1).close()
    (tmp_path / "application.json").write_text(left)
    with pytest.raises(UsageError, match=r"application\.json is damaged .* from a copy"):
        StateDirectory(tmp_path, "app", 1)


@pytest.mark.parametrize(
    ("was", "found"),
    [('"buckets": 8', '"buckets": 9'), ('"partitions": 1', '"partitions": 2'), ("app", "apq")],
)
def test_a_changed_value_is_not_believed(tmp_path: Path, was: str, found: str) -> None:
    """With other buckets, keys would be looked for where they are not."""
    StateDirectory(tmp_path, "app", 1).close()
    file = tmp_path / "application.json"
    assert was in file.read_text()
    file.write_text(file.read_text().replace(was, found))
    with pytest.raises(UsageError, match=r"application\.json is damaged \(its contents do not"):
        StateDirectory(tmp_path, "app", 1)


def test_a_file_that_lacks_its_checksum_is_not_believed(tmp_path: Path) -> None:
    StateDirectory(tmp_path, "app", 1).close()
    file = tmp_path / "application.json"
    values = json.loads(file.read_text())
    del values["checksum"]
    file.write_text(json.dumps(values))
    with pytest.raises(UsageError, match=r"application\.json is damaged \(it has no checksum\)"):
        StateDirectory(tmp_path, "app", 1)


def test_a_directory_of_a_format_without_checksums_is_refused_by_its_format(
    tmp_path: Path,
) -> None:
    (tmp_path / "application.json").write_text('{"application": "app", "format": 4}')
    with pytest.raises(UsageError, match="has format 4, but this version of wallaroo reads"):
        StateDirectory(tmp_path, "app", 1)


def test_a_directory_is_new_until_a_batch_was_planned(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app", 1)
    assert directory.is_new
    (directory.checkpoint / "offsets").mkdir(parents=True)
    assert directory.is_new  # Spark has made its directories, and no more
    (directory.checkpoint / "offsets" / "0").touch()
    assert not directory.is_new
    directory.close()


def test_a_directory_in_use_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockfile, "_WAIT_S", 0.0)
    owner = StateDirectory(tmp_path, "app", 1)
    with pytest.raises(RuntimeFailure, match="is in use by another process"):
        StateDirectory(tmp_path, "app", 1)
    owner.close()
    StateDirectory(tmp_path, "app", 1).close()


def test_another_number_of_partitions_is_refused_with_the_way_out(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app", 4)
    directory.check_partitions(4)
    with pytest.raises(UsageError, match=r"has 4 partitions, not 8: .*repartition"):
        directory.check_partitions(8)
    directory.repartitioned(8)
    directory.check_partitions(8)
    directory.close()
    again = StateDirectory(tmp_path, "app", 4)
    assert (again.fixed.partitions, again.fixed.buckets) == (8, 32)
    again.close()


def test_looking_at_a_directory_that_was_moved_settles_it_unless_it_is_in_use(
    tmp_path: Path,
) -> None:
    file = tmp_path / "checkpoint/state/0/_metadata/v2/0"
    file.parent.mkdir(parents=True)
    schema = "state/0/_stateSchema/default/0_aa"
    there = f'v2\n{{"stateStoreInfo":[{{"stateSchemaFilePaths":["file:/there/{schema}"]}}]}}'
    file.write_text(there)
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert readable_checkpoint(tmp_path) == tmp_path / "checkpoint"
        assert file.read_text() == there
    readable_checkpoint(tmp_path)
    assert f"file:{tmp_path}/checkpoint/{schema}" in file.read_text()


def test_a_used_directory_without_its_settings_is_damaged(tmp_path: Path) -> None:
    StateDirectory(tmp_path, "Votes", 2).close()
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").touch()
    (tmp_path / "application.json").unlink()
    with pytest.raises(DamagedFile) as refused:
        StateDirectory(tmp_path, "Votes", 2)
    file = tmp_path / "application.json"
    assert str(refused.value) == f"{file} is damaged: it is missing; {RESTORE}"
