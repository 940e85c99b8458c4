"""Typical mistakes are answered with value, place and what to do, as the golden texts say.

`python -m tests.mistakes.make` writes them anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mistakes.mistake import CASES, golden_file, read, told

PLACE = re.compile(r"\w\.py:\d+|--\w[\w-]+|'[^']+'|\bapplication(\.py|_setup)\b")
"""A line of the application, an option, a value in quotes, or its file or function."""
ALLOWED = {"prints_everywhere"}
"""Cases that are no mistakes, but whose outputs must stay as they are."""


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_answered_as_its_golden_text_says(name: str, tmp_path: Path) -> None:
    assert told(read(name), tmp_path) == golden_file(name).read_text()


@pytest.mark.parametrize("name", sorted({*CASES} - ALLOWED))
def test_an_answer_names_a_place_and_is_no_traceback(name: str) -> None:
    answer = "\n".join(
        line for line in golden_file(name).read_text().splitlines() if line.startswith(("1>", "2>"))
    )
    given = {argument for command in read(name).commands for argument in command[1:]}
    assert PLACE.search(answer) or any(argument in answer for argument in given)
    assert "Traceback" not in answer


def test_there_are_as_many_as_newcomers_make_and_no_text_is_left_over() -> None:
    assert len(CASES) >= 60
    assert sorted(file.stem for file in golden_file("any").parent.iterdir()) == CASES
