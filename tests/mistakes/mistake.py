"""Runs a mistake as its comments say, and writes down what its author sees.

A case is `cases/NAME.py`: an application that begins with comments.

    # What is wrong with it.
    # $ wallaroo simulate application.py
    # < a line of standard input
    # + other.py: b"the bytes of another file beside it"

Several `$` are run one after the other. A case without code is a command line alone.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from wallaroo.cli.main import main

FOLDER = Path(__file__).parent
CASES = sorted(
    file.stem for file in (FOLDER / "cases").glob("*.py") if file.stem not in {"parts", "__init__"}
)
_NEITHER_LINE_NOR_TEXT = re.compile(r"0x[0-9a-f]{6,}")


@dataclass(frozen=True)
class Mistake:
    """A case as its comments describe it."""

    application: str
    what: str
    commands: tuple[list[str], ...]
    given: bytes
    files: dict[str, bytes]


def golden_file(name: str) -> Path:
    return FOLDER / "golden" / f"{name}.txt"


def read(name: str) -> Mistake:
    """The mistake in `cases/NAME.py`."""
    text = (FOLDER / "cases" / f"{name}.py").read_text()
    comments = [line for line in text.splitlines() if line.startswith("# ")]
    by_mark: dict[str, list[str]] = {"$": [], "<": [], "+": []}
    for line in comments[1:]:
        mark = line[2:3]
        if mark in by_mark:
            by_mark[mark].append(line[4:])
    files = {}
    for line in by_mark["+"]:
        file, _, content = line.partition(": ")
        files[file] = ast.literal_eval(content)
    return Mistake(
        application=text,
        what=comments[0][2:],
        commands=tuple(shlex.split(line)[1:] for line in by_mark["$"]),
        given="".join(f"{line}\n" for line in by_mark["<"]).encode(),
        files=files,
    )


def told(mistake: Mistake, directory: Path) -> str:
    """What the author of *mistake* sees who runs it in *directory*."""
    shutil.copy(FOLDER / "cases" / "parts.py", directory)
    (directory / "application.py").write_text(mistake.application)
    for name, content in mistake.files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_bytes(content)
    parts = [mistake.what]
    with _inside(directory), warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for command in mistake.commands:
            done = CliRunner().invoke(main, command, input=mistake.given, prog_name="wallaroo")
            if done.exception is not None and not isinstance(done.exception, SystemExit):
                raise done.exception
            parts += ["", f"$ wallaroo {shlex.join(command)}"]
            parts += [*(f"1> {line}" for line in done.stdout.splitlines())]
            parts += [*(f"2> {line}" for line in done.stderr.splitlines())]
            parts.append(f"exit code {done.exit_code}")
    text = "\n".join(parts).replace(str(directory), "DIRECTORY") + "\n"
    return _NEITHER_LINE_NOR_TEXT.sub("0x…", text)


@contextmanager
def _inside(directory: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)
