"""`wallaroo check --state-dir` says what the next start does with the saved entities."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.gateway.harness import opened
from tests.golden import PRESENT
from tests.helpers import PATIENCE_S, ROOT, unpack
from wallaroo.cli.main import main
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.damage import LOG

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


def test_without_its_log_the_state_is_that_of_the_last_checkpoint(
    tmp_path: Path, state_dir: Path
) -> None:
    copy = shutil.copytree(state_dir, tmp_path / "copy")
    shutil.rmtree(copy / LOG)
    (copy / "checkpoint" / "begun").touch()  # as while it runs
    result = check(tmp_path, copy, "totals")
    assert rehearsed(result) == ["  state 'totals': loads 3 entities"]
    log = tmp_path / "state" / LOG
    assert f", as of its last checkpoint, because {log} is not here:" in result.stdout


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


def test_a_source_that_is_gone_and_for_which_messages_wait_is_an_error(
    tmp_path: Path, state_dir: Path
) -> None:
    waiting = shutil.copytree(state_dir, tmp_path / "waiting")
    with opened(waiting, sources=["Plain"], sinks=["Plain"]) as store:
        store.journal.submit(0, 1, b"message")
        assert store.journal.flush(PATIENCE_S)
    result = check(tmp_path, waiting, "totals")
    with pytest.raises(RuntimeFailure) as refused, opened(tmp_path / "state", sources=["Plain 0"]):
        pass
    assert result.exit_code == 1
    assert "has 1 message of the source 'Plain' to be processed, and" in result.stderr
    assert str(refused.value) in result.stderr


def test_a_migration_that_does_not_return_is_named(tmp_path: Path, state_dir: Path) -> None:
    hanging = """
import threading

@wallaroo.migrate(Total, from_version=1)
def migrated(fields):
    threading.Event().wait()
"""
    (tmp_path / "migrating.py").write_text(APPLICATION + hanging)
    command = ["check", f"{tmp_path}/migrating.py", "--function-timeout", "0.2", "--state-dir"]
    done = subprocess.run(  # apart, as the class is that of other tests
        [sys.executable, "-m", "wallaroo", *command, str(state_dir), "--", "totals"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1
    assert f"migrating.py:17: state in {state_dir}: migrated has not returned" in done.stderr
