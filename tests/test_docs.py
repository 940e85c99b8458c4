"""What the pages say of the source tree is true of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.helpers import ROOT

RUNTIME = ROOT / "runtime" / "wallaroo"
PAGES = sorted(
    path
    for path in (*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
    if path.name != "benchmarks.md"
)
_MODULE = re.compile(r"`([a-z_]+(?:/[a-z_]+)*/[a-z_]+\.py)`")
_STEP = re.compile(r"^\| `([a-z_/]+\.py)` \| `([A-Za-z_.]+)` \|", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_a_page_names_are_there(page: Path) -> None:
    named = set(_MODULE.findall(page.read_text()))
    missing = {
        name
        for name in named
        if not any((at / name).exists() for at in (ROOT, RUNTIME, RUNTIME.parent))
    }
    assert not missing


def test_the_walk_through_the_code_names_functions_that_are_there() -> None:
    steps = _STEP.findall((ROOT / "docs" / "architecture.md").read_text())
    assert len(steps) > 10
    for file, function in steps:
        source = (RUNTIME / file).read_text()
        kind, _, method = function.partition(".")
        assert f"class {kind}" in source, file
        assert not method or f"def {method}(" in source, (file, function)


def test_the_tree_has_no_folder_that_contributors_are_not_told_of() -> None:
    told = (ROOT / "CONTRIBUTING.md").read_text()
    tracked = subprocess.run(
        ["git", "ls-files", "runtime/wallaroo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    folders = {Path(file).parts[2] for file in tracked if len(Path(file).parts) > 3}
    assert {folder for folder in folders if f"      {folder}/" not in told} <= {"experimental"}
