"""The page of recipes: each does what the lines below it show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers import ROOT
from wallaroo.testing import load, simulate

PAGE = (ROOT / "docs" / "recipes.md").read_text()
COMMON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
RECIPES = re.findall(
    r"^## ([^\n]*)\n(?:(?!^## ).)*?```python\n(.*?)```\n\n```\n(.*?)```",
    PAGE,
    re.MULTILINE | re.DOTALL,
)
SECOND_NS = 10**9


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe[0])
def test_a_recipe_does_what_it_shows(recipe: tuple[str, str, str], tmp_path: Path) -> None:
    _, code, shown = recipe
    file = tmp_path / f"recipe_{RECIPES.index(recipe)}.py"
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
    result = simulate(load(str(file)), messages, until_ns=now_ns)
    assert result.outputs == expected
    assert not result.set_aside


def test_the_recipes_are_found() -> None:
    assert len(RECIPES) == 7
