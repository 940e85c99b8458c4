"""`--baseline` of rehearsals and shadows: processor time of new code beside that of the old.

Time is a clock that functions of the applications move on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_rehearse import ALL_THE_SAME, CODE, call, state_dir
from tests.cli.test_shadow import WORDS, Beside, beside
from tests.cli.test_shadow import call as shadow
from tests.helpers import WORD_COUNT
from tests.history import spent_time
from tests.history.harness import record_words
from wallaroo.history import baseline

__all__ = ["beside", "state_dir"]  # fixtures
DECODER, ENCODER = 'return bs.decode("utf-8")', 'return f"{word} => {count}'
IMPORTS = "import os\nimport string\nimport amounts\nfrom tests.history.spent_time import spend\n"
TIMES = [
    "  STEP               OLD p50   p99  mean  NEW p50   p99  mean  RATIO",
    "  decoder               2.00  2.00  2.00     3.00  3.00  3.00   1.50",
    "  split into words      0.00  0.00  0.00     0.00  0.00  0.00      -",
    "  key of Count Word     0.00  0.00  0.00     0.00  0.00  0.00      -",
    "  Count Word            0.00  0.00  0.00     0.00  0.00  0.00      -",
    "  encoder               5.00  5.00  5.00     1.25  1.25  1.25   0.25",
    "  total                 7.00  7.00  7.00     4.25  4.25  4.25   0.61",
]
Code = Callable[..., str]


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    spent_time.use(monkeypatch)


@pytest.fixture
def code(tmp_path: Path) -> Code:
    """Makes Word Count with functions that take time, as a module of each says, and changes."""

    def make(name: str, decoder: float, encoder: float, *changes: tuple[str, str]) -> str:
        text = CODE
        for old, new in (
            ("import string\n", IMPORTS),
            *changes,
            (DECODER, f"spend(amounts.DECODER); {DECODER}"),
            (ENCODER, f"spend(amounts.ENCODER); {ENCODER}"),
        ):
            assert old in text
            text = text.replace(old, new)
        directory = tmp_path / name
        directory.mkdir()
        (directory / "application.py").write_text(text)
        (directory / "amounts.py").write_text(f"DECODER, ENCODER = {decoder}, {encoder}\n")
        return str(directory)

    return make


def test_times_are_shown_by_step(state_dir: Path, code: Code) -> None:
    done = call("rehearse", code("new", 3, 1), state_dir, "--baseline", code("old", 2, 4))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        *ALL_THE_SAME,
        "processor time of functions in µs a message, 4 messages in 1 turn:",
        *TIMES,
    ]


def test_a_shadow_shows_them_too(beside: Callable[..., Beside], code: Code) -> None:
    made = beside(WORDS[:2], WORDS[2:])
    done = shadow(code("new", 3, 1), made, "--baseline", code("old", 2, 4))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-len(TIMES) :] == TIMES


def test_without_old_code_nothing_is_measured(state_dir: Path, code: Code) -> None:
    assert call("rehearse", code("new", 3, 1), state_dir).stdout.splitlines() == ALL_THE_SAME


def test_steps_of_one_code_alone_have_a_dash(state_dir: Path, code: Code) -> None:
    renamed = code("new", 3, 1, ('name="Count Word"', 'name="Count"'))
    done = call("rehearse", renamed, state_dir, "--baseline", code("old", 2, 4))
    assert [line.split() for line in done.stdout.splitlines()[-8:]] == [
        ["decoder", "2.00", "2.00", "2.00", "3.00", "3.00", "3.00", "1.50"],
        ["split", "into", "words", *["0.00"] * 6, "-"],
        ["key", "of", "Count", *["-"] * 3, *["0.00"] * 3, "-"],
        ["Count", *["-"] * 3, *["0.00"] * 3, "-"],
        ["encoder", "5.00", "5.00", "5.00", "1.25", "1.25", "1.25", "0.25"],
        ["key", "of", "Count", "Word", *["0.00"] * 3, *["-"] * 3, "-"],
        ["Count", "Word", *["0.00"] * 3, *["-"] * 3, "-"],
        ["total", "7.00", "7.00", "7.00", "4.25", "4.25", "4.25", "0.61"],
    ]


def test_old_and_new_code_take_turns(
    tmp_path: Path, code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline, "_TURN", 1)
    (tmp_path / "turns").mkdir()
    record_words(tmp_path / "turns", *[[b"hello"]] * 9, [b"a b c d e"])
    arguments = (tmp_path / "turns", "--baseline", code("old", 1, 1))
    new = code("new", 2, 2)
    *_, head, _, _, _, _, _, encoder, _ = call("rehearse", new, *arguments).stdout.splitlines()
    assert head.endswith(", 10 messages in 10 turns:")
    assert encoder.split() == ["encoder", "1.00", "5.00", "1.40", "2.00", "10.00", "2.80", "2.00"]
    monkeypatch.setattr(baseline, "_MOST_TURNS", 3)
    *_, head, _, _, _, _, _, encoder, _ = call("rehearse", new, *arguments).stdout.splitlines()
    assert head.endswith(", 10 messages in 3 turns:")
    assert (encoder.split()[3], encoder.split()[6]) == ("1.40", "2.80")


def test_dead_letters_of_the_old_code_count_where_they_are_made(
    state_dir: Path, code: Code
) -> None:
    old = code("old", 2, 4, ("letter = word[:1]", "letter = word[:one]"))
    done = call("rehearse", code("new", 3, 1), state_dir, "--baseline", old)
    assert done.exit_code == 0, done.output
    *_, count, encoder, total = done.stdout.splitlines()
    told = "the old code makes 5 dead letters more, for which later steps take no time"
    assert done.stdout.splitlines()[len(ALL_THE_SAME)] == told
    assert count.split() == ["Count", "Word", "-", "-", "-", "0.00", "0.00", "0.00", "-"]
    assert encoder.split() == ["encoder", "-", "-", "-", "1.25", "1.25", "1.25", "-"]
    assert total.split() == ["total", "2.00", "2.00", "2.00", "4.25", "4.25", "4.25", "2.12"]


def test_a_source_that_the_old_code_lacks_is_named(state_dir: Path, code: Code) -> None:
    old = code("old", 2, 4, ('"Split and Count"', '"Split"'))
    done = call("rehearse", code("new", 3, 1), state_dir, "--baseline", old)
    told = "the old code has not run 4 messages: it lacks the source 'Split and Count'"
    assert done.stdout.splitlines()[len(ALL_THE_SAME)] == told


def test_old_code_that_ends_its_process_leaves_the_comparison_and_earlier_times(
    state_dir: Path, code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline, "_TURN", 1)
    old = code("old", 2, 4, (DECODER, f'bs == b"it\'s" and os._exit(3); {DECODER}'))
    done = call("rehearse", code("new", 3, 1), state_dir, "--baseline", old)
    assert done.exit_code == 0, done.output
    same, (early, head) = done.stdout.splitlines()[:4], done.stdout.splitlines()[4:6]
    assert same == ALL_THE_SAME
    assert early == "the old code ended early: it ended its process"
    assert head.endswith(", 2 messages in 1 turn:")


def test_old_code_that_cannot_load_the_state_leaves_the_comparison(
    state_dir: Path, code: Code
) -> None:
    old = code("old", 2, 4, ("WordTotals", "Totals"))
    done = call("rehearse", code("new", 3, 1), state_dir, "--baseline", old)
    assert done.exit_code == 0, done.output
    early = done.stdout.splitlines()[4]
    assert early.startswith("the old code ended early: state 'word totals', key 'h': the entity,")
    assert done.stdout.splitlines() == [*ALL_THE_SAME, early]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("import os\n", "import nothing\n"), "No module named 'nothing'"),
        (("Word Count Application", "Other"), "'Other' is another application than 'Word Count"),
        (("import os\n", "import os; os._exit(3)\n"), "--baseline: it ended its process"),
    ],
)
def test_old_code_that_cannot_be_run_is_told_at_once(
    change: tuple[str, str], problem: str, state_dir: Path, code: Code
) -> None:
    old = code("old", 2, 4, change)
    done = call("rehearse", str(WORD_COUNT), state_dir, "--baseline", old)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--baseline: " in done.stderr
    assert problem in done.stderr
