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


STATE = (ROOT / "docs" / "state.md").read_text()
IN_STATE = re.findall(
    r"^## ([^\n]*)\n(?:(?!^## ).)*?```python\n(.*?)```(?:(?!^## ).)*?\n```\n(.*?)```",
    STATE,
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize("recipe", IN_STATE, ids=lambda recipe: recipe[0])
def test_an_application_of_the_page_of_state_does_what_it_shows(
    recipe: tuple[str, str, str], tmp_path: Path
) -> None:
    common = re.findall(r"```python\n(.*?)```", STATE, re.DOTALL)[0]
    check_recipe(recipe, common, tmp_path / f"state_{IN_STATE.index(recipe)}.py")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe[0])
def test_a_recipe_does_what_it_shows(recipe: tuple[str, str, str], tmp_path: Path) -> None:
    check_recipe(recipe, COMMON, tmp_path / f"recipe_{RECIPES.index(recipe)}.py")


def check_recipe(recipe: tuple[str, str, str], common: str, file: Path) -> None:
    _, code, shown = recipe
    file.write_text(common + code)
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
    assert len(IN_STATE) == 4
