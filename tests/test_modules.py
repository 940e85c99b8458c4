"""Every module says in its first line which thing it is, and every thread has a name."""

from __future__ import annotations

import ast
from functools import cache

from tests.helpers import ROOT

QUESTIONS = {"How", "What", "When", "Where", "Whether", "Which", "Who", "Why"}
"""Words with which a title begins that names nothing."""


@cache
def modules() -> dict[str, ast.Module]:
    return {
        str(file.relative_to(ROOT)): ast.parse(file.read_text())
        for file in (ROOT / "runtime" / "wallaroo").rglob("*.py")
    }


def test_no_title_is_a_question() -> None:
    titles = {name: ast.get_docstring(tree) or "" for name, tree in modules().items()}
    assert {name for name, title in titles.items() if title.partition(" ")[0] in QUESTIONS} == set()


def test_threads_have_names() -> None:
    without = {
        f"{name}:{node.lineno}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("threading.Thread")
        if "name" not in {keyword.arg for keyword in node.keywords}
    }
    assert without == set()
