"""The page of windows: each example does what the lines below it show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.page_examples import check_example, page

PAGE = page("windows")


@pytest.mark.parametrize("number", range(len(PAGE.examples)))
def test_an_example_does_what_it_shows(number: int, tmp_path: Path) -> None:
    check_example(PAGE, number, tmp_path)


def test_every_example_is_found() -> None:
    assert len(PAGE.examples) == len(PAGE.blocks) - 1 == 7
