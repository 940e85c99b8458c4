"""The tutorial does what it says: its commands are typed, its files written, its outputs compared.

A block of Python goes into the file of its title: the first block of a file begins it, later ones
are added. A block of a console is typed line by line where it has a `$`; the rest is what must be
shown, with `…` for anything. Blocks without a title are for the first terminal, whose commands end
and show just that. Those with a title have terminals of their own, where things go on running and
show other lines, too.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers import ROOT, free_address
from tests.terminal import Terminal

PAGE = ROOT / "docs" / "tutorial.md"
_FENCE = re.compile(r'^```(\w+)(?: title="(.*?)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of the page."""

    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    """The blocks of *page*."""
    found = [Block(*match.groups(default="")) for match in _FENCE.finditer(page)]
    assert len(found) * 2 == len(re.findall("^```", page, re.MULTILINE))
    return found


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """What is typed, each with the lines that must be shown then; "" where nothing is typed."""
    typed = ""
    shown: list[str] = []
    for line in text.splitlines():
        if line.startswith("$ ") or line == "^C":
            if typed or shown:
                yield typed, shown
            typed, shown = line.removeprefix("$ "), []
        else:
            shown.append(line)
    yield typed, shown


def pattern(line: str) -> str:
    return re.escape(line).replace("…", ".*")


class Addresses:
    """Puts ports that are free in the place of those on the page, and takes them back."""

    def __init__(self) -> None:
        self._free = {address: free_address() for address in ("127.0.0.1:7010", "127.0.0.1:7002")}

    def put(self, text: str) -> str:
        for address, free in self._free.items():
            text = text.replace(address, free)
        return text

    def take_back(self, text: str) -> str:
        for address, free in self._free.items():
            text = text.replace(free, address)
        return text


class Reader:
    """Does what the page says, block by block."""

    def __init__(self, home: Path, stack: contextlib.ExitStack) -> None:
        self._home = home
        self._stack = stack
        self._addresses = Addresses()
        self._terminals: dict[str, Terminal] = {}
        self._written: set[str] = set()
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {**os.environ, "HOME": str(home), "PATH": path}

    def do(self, block: Block) -> None:
        if block.language == "python":
            self._write(self._home / "ratings" / block.title, block.text)
        elif block.title:
            self._type(self._terminal(block.title, self._home / "ratings"), block.text)
        else:
            self._call(self._terminal("", ROOT), block.text)

    def _write(self, file: Path, text: str) -> None:
        begun = file.name in self._written
        self._written.add(file.name)
        file.write_text(f"{file.read_text()}\n\n{text}" if begun else text)

    def _terminal(self, title: str, directory: Path) -> Terminal:
        if title not in self._terminals:
            terminal = Terminal(directory, self._environment)
            self._terminals[title] = self._stack.enter_context(terminal)
        return self._terminals[title]

    def _call(self, terminal: Terminal, text: str) -> None:
        for command, shown in commands(text):
            output = self._addresses.take_back(terminal.call(self._addresses.put(command)))
            anything = [f"{pattern(line)}\n" if line != "…" else "(?s:.*)" for line in shown]
            assert re.fullmatch("".join(anything), output), f"{command} showed:\n{output}"

    def _type(self, terminal: Terminal, text: str) -> None:
        for command, shown in commands(text):
            if command:
                terminal.type(self._addresses.put(command))
            for line in shown:
                terminal.wait_for(f"^{pattern(self._addresses.put(line))}$")


def test_the_page_has_no_block_that_is_not_done() -> None:
    found = blocks(PAGE.read_text())
    assert {block.language for block in found} == {"console", "python"}
    assert {block.title for block in found if block.language == "python"} == {
        "application.py",
        "test_application.py",
    }


@pytest.mark.spark
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        reader = Reader(tmp_path, stack)
        for block in blocks(PAGE.read_text()):
            reader.do(block)
    drawn = (tmp_path / "ratings" / "ratings.svg").read_bytes()
    assert (PAGE.parent / "ratings.svg").read_bytes() == drawn, "copy the picture that was drawn"
