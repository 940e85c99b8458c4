"""The types of the public API, as mypy sees them in an author's code.

The files in `typing` say what is due: behind `# E:` a part of the error of that line, behind `# R:`
the type that is revealed there. Nothing else may be told of them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

from tests.helpers import MYPY_CACHES, ROOT

CASES = ROOT / "tests" / "typing"
_TOLD = re.compile(r"^.*?:(\d+): (error|note): (.*?)(?:  \[[a-z-]+\])?$")
_REVEALED = re.compile(r'Revealed type is "(.*)"')


def due(file: Path) -> dict[int, str]:
    """What must be told of *file*, by line: an `R` or an `E`, and a text."""
    marked = {}
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if found := re.search(r"  # ([ER]): (.*)$", line):
            marked[number] = f"{found[1]}: {found[2]}"
    return marked


def told(file: Path, *options: str) -> dict[int, str]:
    """What mypy tells of *file*, by line: errors and revealed types, without modules' names."""
    kept = f"--cache-dir={MYPY_CACHES / '-'.join(['typing', *options])}"
    report, problems, _ = api.run(
        ["--no-error-summary", "--config-file=", kept, *options, str(file)]
    )
    assert not problems
    found: dict[int, str] = {}
    for line in report.splitlines():
        match = _TOLD.match(line)
        assert match, line
        number, text = int(match[1]), re.sub(r"\b[a-z]\w*\.", "", match[3])
        text = re.sub(r"tuple\[[^\[\]]*, fallback=(\w+)\]", r"\1", text)  # a NamedTuple
        if match[2] == "error":
            assert number not in found, line
            found[number] = f"E: {text}"
        elif revealed := _REVEALED.match(text):
            found[number] = f"R: {revealed[1]}"
    return found


@pytest.mark.parametrize(
    "name", ["codecs", "gathered", "joins", "pipelines", "sources", "timers", "windows"]
)
def test_types_go_from_step_to_step(name: str) -> None:
    file = CASES / f"{name}.py"
    wanted, given = due(file), told(file, "--strict")
    assert sum(text.startswith("R") for text in wanted.values()) >= 4
    assert sum(text.startswith("E") for text in wanted.values()) >= 4
    for number, text in wanted.items():  # of an error a part will do
        if text[0] == given.get(number, "?")[0] == "E" and text[3:] in given[number]:
            given[number] = text
    assert given == wanted


def test_code_without_types_stands_in_nobodys_way() -> None:
    file = CASES / "untyped.py"
    assert told(file, "--check-untyped-defs") == due(file)


@pytest.mark.parametrize("app", ["pipelines", "decorators", "classes"])
def test_applications_of_old_are_as_they_were(app: str, tmp_path: Path) -> None:
    text = re.sub("# mypy: .*", "", (ROOT / "tests" / "features" / f"{app}.py").read_text())
    (tmp_path / "application.py").write_text(text)
    assert told(tmp_path / "application.py", "--check-untyped-defs") == {}
