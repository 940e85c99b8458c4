"""Where the state of an application is by default: wherever the command is called."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from wallaroo.cli.main import main
from wallaroo.engine.spark import shipping
from wallaroo.loading.loader import ApplicationRef
from wallaroo.run.state import location
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.state.location import default_state_dir, state_here


def test_it_is_beside_the_application_wherever_the_command_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "votes"
    directory.mkdir()
    file = directory / "votes.py"
    file.touch()
    expected = directory / ".wallaroo" / "the-votes"
    for place, reference in ((tmp_path, "votes"), (tmp_path, "votes/votes.py"), (directory, ".")):
        monkeypatch.chdir(place)
        assert default_state_dir(ApplicationRef(reference), "The Votes!") == expected


def test_for_modules_and_where_nothing_can_be_written_it_is_in_the_home_for_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "states"))
    expected = tmp_path / "states" / "wallaroo" / "votes"
    assert default_state_dir(ApplicationRef("some.module"), "votes") == expected
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    assert default_state_dir(ApplicationRef(str(tmp_path)), "votes") == expected
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # is to be ignored
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = tmp_path / ".local" / "state" / "wallaroo" / "votes"
    assert default_state_dir(ApplicationRef("some.module"), "votes") == expected


def test_other_state_of_the_application_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    used = tmp_path / "application" / ".wallaroo" / "votes"
    assert state_here(used, "votes") is None
    StateDirectory(tmp_path / ".wallaroo" / "votes", "votes", 1).close()
    assert state_here(used, "votes") == tmp_path / ".wallaroo" / "votes"
    assert state_here(tmp_path / ".wallaroo" / "votes", "votes") is None


def test_commands_on_the_state_look_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "votes"
    runner = CliRunner()
    assert runner.invoke(main, ["new", "votes"]).exit_code == 0
    for command in (["state", "show", "votes", "ada"], ["state", "export", "votes"]):
        result = runner.invoke(main, command)
        assert result.exit_code == 2
        assert f"{made / '.wallaroo' / 'votes'} is not a state directory" in result.output
    addresses = ["--in", "127.0.0.1:0", "--out", "127.0.0.1:1"]
    result = runner.invoke(main, ["repartition", "votes", *addresses, "--partitions", "2"])
    assert f"there is no directory {made / '.wallaroo' / 'votes'}" in result.output


def test_state_is_not_shipped_to_other_machines(tmp_path: Path) -> None:
    directory = tmp_path / "votes"
    for name in ("application.py", "data/rates.csv", ".wallaroo/votes/letters.db"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).touch()
    shipping._archive(directory, tmp_path / "archive.zip")
    with zipfile.ZipFile(tmp_path / "archive.zip") as archive:
        assert sorted(archive.namelist()) == ["application.py", "data/rates.csv"]
    assert location._file_name("---") == "application"
