"""A state directory has one owner at a time, and one application for its life."""

from __future__ import annotations

from pathlib import Path

import pytest

from wallaroo.cli.state_directory import StateDirectory
from wallaroo.edge import exclusive
from wallaroo.errors import RuntimeFailure


def test_what_is_fixed_at_first_stays(tmp_path: Path) -> None:
    first = StateDirectory(tmp_path / "state", "app", 4)
    fixed = first.fixed
    first.close()
    again = StateDirectory(tmp_path / "state", "app", 2)
    assert again.fixed == fixed
    assert again.fixed.partitions == 4
    again.close()


def test_a_directory_is_new_until_a_batch_was_planned(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app", 1)
    assert directory.is_new
    (directory.checkpoint / "offsets").mkdir(parents=True)
    assert not directory.is_new
    directory.close()


def test_a_directory_in_use_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusive, "_WAIT_S", 0.0)
    owner = StateDirectory(tmp_path, "app", 1)
    with pytest.raises(RuntimeFailure, match="is in use by another process"):
        StateDirectory(tmp_path, "app", 1)
    owner.close()
    StateDirectory(tmp_path, "app", 1).close()
