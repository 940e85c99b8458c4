"""The messages that docs/troubleshooting.md explains are those of the code."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.helpers import ROOT

MESSAGE = re.compile(r"^### `(.+)`$", re.MULTILINE)
EXPLAINED = MESSAGE.findall((ROOT / "docs" / "troubleshooting.md").read_text())


@cache
def texts() -> set[str]:
    """Every text of the runtime, with … in place of what it is filled with."""
    found = set[str]()
    for module in (ROOT / "runtime" / "wallaroo").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (v.value if isinstance(v, ast.Constant) else "…" for v in node.values)
                found.add("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


@pytest.mark.parametrize("message", EXPLAINED)
def test_an_explained_message_is_one_of_the_code(message: str) -> None:
    # what the code quotes with ` cannot stand in a heading that is code
    pattern = re.compile(".*".join(map(re.escape, message.split("…"))), re.DOTALL)
    assert any(pattern.match(text) for text in texts())


def test_there_are_as_many_as_a_user_may_meet() -> None:
    assert len(EXPLAINED) >= 25
