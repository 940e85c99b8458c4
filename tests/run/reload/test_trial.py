"""What the trial of changed code shows."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import pytest

from tests.run.reload.application import ARGUMENTS, change, write
from wallaroo.loading.loader import ApplicationRef
from wallaroo.run.reload.trial import Trial, tried
from wallaroo.run.state.classes import check_state_classes
from wallaroo.run.state.directory import StateDirectory


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    directory = tmp_path / "application"
    directory.mkdir()
    reference = ApplicationRef(str(write(directory)), ARGUMENTS)
    state = StateDirectory(tmp_path / "state", "reloaded", 1)
    check_state_classes(state.path, reference.load())
    state.close()
    return Trial(reference, "reloaded", state.path)


def problem(trial: Trial) -> str | None:
    outcome = tried(trial, threading.Event().wait)
    assert outcome is not None
    return outcome.problem


def directory_of(trial: Trial) -> Path:
    assert trial.application.directory is not None
    return trial.application.directory


def test_code_that_works_is_returned_as_it_was_read(trial: Trial) -> None:
    directory = directory_of(trial)
    (directory / "not_imported.py").write_text("")
    outcome = tried(trial, threading.Event().wait)
    assert outcome is not None
    assert outcome.problem is None
    names = ("application.py", "texts.py")
    assert outcome.files == {
        str(directory / name): (directory / name).read_bytes() for name in names
    }


def test_code_that_does_not_is_told_like_at_a_start(trial: Trial) -> None:
    directory = directory_of(trial)
    change(directory, "import wallaroo\n", "import wallaroo\nimport lacking\n")
    assert str(problem(trial)).startswith(
        "the application cannot be imported: ModuleNotFoundError: No module named 'lacking' "
        "(application.py:3)"
    )


def test_a_class_that_does_not_fit_the_state_is_told_like_at_a_start(trial: Trial) -> None:
    change(directory_of(trial), "messages = 0", "messages, self.seen = 0, 0")
    told = str(problem(trial))
    assert "state 'count'" in told
    assert "class Total now has the field 'seen', which the saved entities lack" in told


def test_a_class_with_a_default_fits(trial: Trial) -> None:
    change(directory_of(trial), "class Total:\n", "class Total:\n    seen = 0\n")
    change(directory_of(trial), "messages = 0", "messages, self.seen = 0, 0")
    assert problem(trial) is None


def test_another_name_is_told(trial: Trial) -> None:
    change(directory_of(trial), '"reloaded"', '"other"')
    assert "is called 'other' now, and its state belongs to 'reloaded'" in str(problem(trial))


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import os; os._exit(7)", "ended the process with exit code 7"),
        ("import sys; sys.exit()", "cannot be imported: SystemExit (application.py:3)"),
        ("import os, signal; os.kill(os.getpid(), 9)", "ended the process with exit code -9"),
    ],
)
def test_code_that_ends_its_process_ends_no_other(trial: Trial, code: str, told: str) -> None:
    change(directory_of(trial), "import wallaroo\n", f"import wallaroo\n{code}\n")
    assert told in str(problem(trial))


def test_settings_that_no_longer_fit_are_told(trial: Trial) -> None:
    other = dataclasses.replace(trial, on_error=("Keys=drop",))
    assert problem(other) is None
    change(directory_of(trial), 'source("Keys"', 'source("Others"')
    assert "there is no source 'Keys'; the sources are: Others" in str(problem(other))
    assert "listens on 127.0.0.1:0 and never ends" in str(
        problem(dataclasses.replace(trial, until_done=True))
    )


def test_a_trial_that_hangs_ends_when_the_run_stops(trial: Trial) -> None:
    change(directory_of(trial), "import wallaroo\n", "import threading\nthreading.Event().wait()\n")
    assert tried(trial, lambda _seconds: True) is None
