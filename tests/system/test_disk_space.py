"""The free space of disks."""

from __future__ import annotations

from pathlib import Path

from wallaroo.system.disk_space import shortage


def test_a_directory_that_is_gone_is_taken_for_the_disk_it_was_on(tmp_path: Path) -> None:
    assert shortage(tmp_path / "gone" / "too") == shortage(tmp_path)
