"""`wallaroo check --state-dir` says what the next start does with the saved entities."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.golden import PRESENT
from tests.helpers import unpack
from wallaroo.cli.main import main

APPLICATION = """
import wallaroo
from tests.golden.applications import SOURCE, Total, count, letter


def application_setup(states):
    builder = wallaroo.ApplicationBuilder("Golden plain")
    for number, name in enumerate(states):
        builder.new_pipeline(f"Plain {number}", SOURCE)
        builder.to_state_partition(count, Total, name, letter).done()
    if not states:
        builder.new_pipeline("Plain", SOURCE).done()
    return builder.build()
"""


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three entities of the state `totals`."""
    return unpack(PRESENT / "plain.tar.gz", tmp_path_factory.mktemp("saved") / "state")


def check(directory: Path, state_dir: Path, *states: str) -> Result:
    (directory / "renaming.py").write_text(APPLICATION)
    copy = shutil.copytree(state_dir, directory / "state")
    command = ["check", str(directory / "renaming.py"), "--state-dir", str(copy), "--", *states]
    return CliRunner().invoke(main, command)


def rehearsed(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    _, _, lines = result.stdout.partition("the next start with ")
    return lines.splitlines()[1:]


def test_entities_of_a_state_that_keeps_its_name_are_counted(
    tmp_path: Path, state_dir: Path
) -> None:
    assert rehearsed(check(tmp_path, state_dir, "totals", "more")) == [
        "  state 'totals': loads 3 entities",
        "  state 'more': begins empty",
    ]


def test_a_state_that_was_renamed_does_not_fit(tmp_path: Path, state_dir: Path) -> None:
    result = check(tmp_path, state_dir, "sums")
    assert result.exit_code == 2
    assert "state 'totals' in " in result.stderr
    assert (
        " has 3 entities, and the application has no state of that name: the next start would "
        "leave them unused and begin 'sums' empty; if only the name has changed, call it 'totals' "
        "again\n"
    ) in result.stderr


def test_a_state_that_was_removed_is_said_to_be_unused(tmp_path: Path, state_dir: Path) -> None:
    assert rehearsed(check(tmp_path, state_dir)) == [
        "  state 'totals': leaves 3 entities unused, as no step has this state"
    ]
