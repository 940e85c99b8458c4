"""`wallaroo rehearse`, and `wallaroo explain --with-app`: other code over recorded messages."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.golden import PRESENT
from tests.helpers import ROOT, WORD_COUNT, unpack
from tests.history.harness import record_words
from wallaroo.cli.main import main

SOURCE = "Split and Count"
ALL_THE_SAME = [
    "4 messages run again",
    "sink 'Split and Count': 5 outputs the same",
    "state 'word totals': 3 of 3 entities the same",
    "dead letters: 1 then, 1 now",
]
"""The report of the four messages here, if nothing differs."""
CODE = (WORD_COUNT / "application.py").read_text()


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    record_words(tmp_path / "state", [b"hello zebra", b"zoo Zebra"], [b"alpha\xff", b"it's"])
    return tmp_path / "state"


def changed(directory: Path, old: str, new: str) -> str:
    """An application with changed code."""
    assert old in CODE
    (directory / "new").mkdir()
    file = directory / "new" / "application.py"
    file.write_text(CODE.replace(old, new))
    return str(file.parent)


def call(command: str, app: str, state_dir: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [command, app, *arguments, "--state-dir", str(state_dir)])


def test_the_same_code_comes_to_the_same(state_dir: Path) -> None:
    done = call("rehearse", str(WORD_COUNT), state_dir)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == ALL_THE_SAME


def test_differences_are_shown_by_kind_with_an_example(state_dir: Path, tmp_path: Path) -> None:
    app = changed(tmp_path, "line.lower()", "line")
    done = call("rehearse", app, state_dir)
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "4 messages run again",
        "sink 'Split and Count': 4 outputs the same, 1 missing, 1 new",
        r"  only published: b'zebra => 2\n'",
        r"  only in this run: b'Zebra => 1\n'",
        "state 'word totals': 2 of 4 entities the same, 2 differ",
        "  as a whole: 1 entity, such as '!': + WordTotals(word_totals={'Zebra': 1})",
        "  .word_totals[…]: 1 entity, such as 'z': .word_totals['zebra'] 2 → 1",
        "dead letters: 1 then, 1 now",
    ]


def test_calls_that_return_something_else_each_time_are_named(
    state_dir: Path, tmp_path: Path
) -> None:
    app = changed(tmp_path, "line.lower()", "line.lower() + str(random.random())")
    file = Path(app) / "application.py"
    file.write_text(file.read_text().replace("import string\n", "import random\nimport string\n"))
    (line,) = [n for n, one in enumerate(file.read_text().splitlines(), 1) if "random()" in one]
    done = call("rehearse", app, state_dir)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-2:] == [
        "calls with other results each time, unlike those of wallaroo.now and wallaroo.rng:",
        f"  random.random: application.py:{line}",
    ]


def test_differences_that_are_expected_are_no_failure(state_dir: Path, tmp_path: Path) -> None:
    app = changed(tmp_path, "line.lower()", "line")
    one = ("--expect", "word totals")
    assert call("rehearse", app, state_dir, *one).exit_code == 1
    assert call("rehearse", app, state_dir, *one, "--expect", SOURCE).exit_code == 0
    refused = call("rehearse", app, state_dir, "--expect", "totals")
    assert refused.exit_code == 2
    assert "there is nothing named 'totals' to differ; there is 'Split and Count'" in refused.stderr


def test_entities_that_the_code_cannot_load_are_told(state_dir: Path, tmp_path: Path) -> None:
    app = changed(tmp_path, "WordTotals", "Totals")
    for done in (call("rehearse", app, state_dir), call("explain", app, state_dir, "h")):
        assert done.exit_code == 1
        assert "state 'word totals', key 'h': the entity, of class application.WordTotals" in (
            done.stderr
        )


def test_a_key_is_explained_with_other_code(state_dir: Path, tmp_path: Path) -> None:
    app = changed(tmp_path, "line.lower()", "line")
    done = call("explain", str(WORD_COUNT), state_dir, "!", "--with-app", app, "--json")
    (change,) = map(json.loads, done.stdout.splitlines())
    assert change["path"][-1]["message"] == "Zebra"
    assert change["published"] == {"$absent": True}
    done = call("explain", str(WORD_COUNT), state_dir, "z", "--with-app", app)
    *_, last = done.stdout.splitlines()
    assert last.split(maxsplit=1) == [
        "but",
        "published               .word_totals['zebra'] 2 instead of 1",
    ]


def test_what_the_code_has_no_more_is_a_difference(state_dir: Path, tmp_path: Path) -> None:
    app = changed(tmp_path, '"word totals"', '"totals"')
    done = call("rehearse", app, state_dir)
    assert done.exit_code == 1
    gone = "state 'word totals': 3 entities published, and no state has this name"
    assert gone in done.stdout.splitlines()
    assert call("rehearse", app, state_dir, "--expect", "word totals").exit_code == 1
    both = ("--expect", "word totals", "--expect", "totals")
    assert call("rehearse", app, state_dir, *both).exit_code == 0


def test_other_dead_letters_are_a_difference(state_dir: Path, tmp_path: Path) -> None:
    app = changed(tmp_path, 'return bs.decode("utf-8")', 'return bs.decode("latin-1")')
    done = call("rehearse", app, state_dir)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1] == "dead letters: 1 then, 0 now"


def test_a_call_that_does_not_return_is_a_dead_letter(state_dir: Path, tmp_path: Path) -> None:
    loop = 'while bs == b"zoo Zebra":\n        pass\n    return bs.decode("utf-8")'
    app = changed(tmp_path, 'return bs.decode("utf-8")', loop)
    done = call("rehearse", app, state_dir, "--function-timeout", "0.2")
    assert done.exit_code == 1
    *_, letters, failed, _ = done.stdout.splitlines()
    assert letters == "dead letters: 1 then, 2 now"
    assert failed.startswith(
        "  in this run: step 'decoder', after offset 1, b'zoo Zebra': CallTimedOut: the call took "
    )


def test_the_directory_of_another_application_is_refused(tmp_path: Path) -> None:
    other = unpack(PRESENT / "plain.tar.gz", tmp_path / "state")
    done = call("rehearse", str(WORD_COUNT), other)
    assert done.exit_code == 2
    assert f"{other} belongs to 'Golden plain', not to 'Word Count Application'" in done.stderr


def test_standard_output_may_be_closed(state_dir: Path) -> None:
    command = [sys.executable, "-m", "wallaroo", "rehearse", str(WORD_COUNT), "--state-dir"]
    done = subprocess.run(
        ["sh", "-c", f"exec {shlex.join([*command, str(state_dir)])} >&-"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
