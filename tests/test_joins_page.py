"""The page of joins: each example does what the lines below it show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers import ROOT
from wallaroo.testing import load, simulate

PAGE = (ROOT / "docs" / "joins.md").read_text()
COMMON, *_ = BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
EXAMPLES = re.findall(r"```python\n((?:(?!```).)*)```\n\n```\n(.*?)```", PAGE, re.DOTALL)
SECOND_NS = 10**9


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_does_what_it_shows(number: int, tmp_path: Path) -> None:
    code, shown = EXAMPLES[number]
    file = tmp_path / f"joins_example_{number}.py"
    file.write_text(COMMON + code)
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


def test_every_example_is_found() -> None:
    assert len(EXAMPLES) == len(BLOCKS) - 1 == 5
