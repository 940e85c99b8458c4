"""Every module says in its first line which thing it is, and every thread has a name."""

from __future__ import annotations

import ast

from tests.helpers import ROOT

MODULES = {
    str(file.relative_to(ROOT)): ast.parse(file.read_text())
    for file in (ROOT / "runtime" / "wallaroo").rglob("*.py")
}
QUESTIONS = {"How", "What", "When", "Where", "Whether", "Which", "Who", "Why"}
"""Words with which a title begins that names nothing."""


def test_no_title_is_a_question() -> None:
    titles = {name: ast.get_docstring(tree) or "" for name, tree in MODULES.items()}
    assert {name for name, title in titles.items() if title.partition(" ")[0] in QUESTIONS} == set()


def test_threads_have_names() -> None:
    without = {
        f"{name}:{node.lineno}"
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("threading.Thread")
        if "name" not in {keyword.arg for keyword in node.keywords}
    }
    assert without == set()
