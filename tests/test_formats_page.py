"""The page of formats: its application and its examples do what they show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "formats.md").read_text()
APPLICATION, TEST, *EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_application_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("highest.py").write_text(APPLICATION)
    exec(compile(TEST, "formats.md", "exec"), {})


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_page(example: str) -> None:
    exec(compile(example, "formats.md", "exec"), {})
