"""The cells of docs/notebooks.md do what it shows: each is run as a notebook runs it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "notebooks.md").read_text()
CELLS = re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", PAGE, re.DOTALL)
# A cell's last expression is what it shows, and its names are those of `__main__`.
KERNEL = """
import ast, json, sys
shown = []
for number, cell in enumerate(json.load(sys.stdin)):
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"<cell {number}>", "exec"))
    value = eval(compile(ast.Expression(last.value), f"<cell {number}>", "eval")) if last else None
    shown.append("" if value is None else f"{value!r}\\n")
json.dump(shown, sys.stdout)
"""


def test_the_cells_show_what_the_page_shows(tmp_path: Path) -> None:
    assert len([shown for _, shown in CELLS if shown]) == 6
    define = CELLS[0][0].replace("def shop():", "def application_setup(args):")
    (tmp_path / "shop.py").write_text(define)
    done = subprocess.run(
        [sys.executable, "-c", KERNEL],
        cwd=tmp_path,
        input=json.dumps([cell for cell, _ in CELLS]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [shown for _, shown in CELLS]
