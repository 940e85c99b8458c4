"""Examples on a page of the documentation: code, and below it messages, time and outputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.helpers import ROOT
from wallaroo.testing import load, simulate

SECOND_NS = 10**9


class Page(NamedTuple):
    """A page whose first block is what all examples begin with."""

    name: str
    blocks: list[str]
    examples: list[tuple[str, str]]
    """Code, and what is shown below it."""


def page(name: str) -> Page:
    text = (ROOT / "docs" / f"{name}.md").read_text()
    return Page(
        name,
        re.findall(r"```python\n(.*?)```", text, re.DOTALL),
        re.findall(r"```python\n((?:(?!```).)*)```\n\n```\n(.*?)```", text, re.DOTALL),
    )


def check_example(page: Page, number: int, directory: Path) -> None:
    """Check that the example does what the lines below it show."""
    code, shown = page.examples[number]
    file = directory / f"{page.name}_example_{number}.py"
    file.write_text(page.blocks[0] + code)
    now_ns, messages, expected = 0, [], []
    for line in shown.splitlines():
        if line.startswith("< "):
            expected.append(f"{line[2:]}\n".encode())
        elif line.startswith("+"):
            now_ns += int(line[1:].removesuffix(" s")) * SECOND_NS
        else:
            name, payload = line.split("> ", 1)
            messages.append((name, payload.encode(), now_ns))
    application = load(str(file))
    result = simulate(application, messages, until_ns=now_ns)
    assert result.outputs == expected
    assert not result.set_aside
    assert not application.hints
