"""The page of recipes: each does what the lines below it show."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from tests.helpers import ROOT
from wallaroo.cli.main import main
from wallaroo.testing import load, messages_of, simulate

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


@pytest.mark.parametrize("name", ["concepts", "operators"])
def test_the_application_of_a_page_does_what_it_shows(name: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / f"{name}.md").read_text()
    ((code, shown),) = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL)
    check_recipe((name, code, shown), "", tmp_path / f"page_of_{name}.py")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe[0])
def test_a_recipe_does_what_it_shows(recipe: tuple[str, str, str], tmp_path: Path) -> None:
    check_recipe(recipe, COMMON, tmp_path / f"recipe_{RECIPES.index(recipe)}.py")


def check_recipe(recipe: tuple[str, str, str], common: str, file: Path) -> None:
    _, code, shown = recipe
    file.write_text(common + code)
    now_ns, messages, expected = 0, [], []
    for line in shown.splitlines():
        if line.startswith("< "):
            expected.append(line[2:])
        elif line.startswith("+"):
            now_ns += int(line[1:].removesuffix(" s")) * SECOND_NS
        else:
            name, payload = line.split("> ", 1)
            messages.append((name, payload.encode(), now_ns))
    result = simulate(load(str(file)), messages, until_ns=now_ns)
    assert [output.decode().removesuffix("\n") for output in result.outputs] == expected
    assert not result.set_aside


def recipe_of(title: str, file: Path) -> Path:
    """The application of the recipe whose title begins with *title*, in *file*."""
    (code,) = (code for name, code, _ in RECIPES if name.startswith(title))
    file.write_text(COMMON + code)
    return file


def test_the_backfill_reads_the_file_and_the_other_run_the_port(tmp_path: Path) -> None:
    file = recipe_of("Backfill", tmp_path / "totals.py")
    old = tmp_path / "old-orders.txt"
    old.write_text('{"item": "nut", "count": 2}\n{"item": "nut", "count": 3}\n')
    backfill, live = load(file, ["--backfill", str(old)]), load(file)
    outputs = simulate(backfill, messages_of(backfill, "orders")).outputs
    assert [json.loads(output)["total"] for output in outputs] == [2, 5]
    assert (live.name, set(live.partitions)) == (backfill.name, set(backfill.partitions))
    assert [source.where for source in live.sources] == ["127.0.0.1:7010"]


def test_argparse_reads_the_option(tmp_path: Path) -> None:
    hot = load(recipe_of("Options", tmp_path / "hot.py"), ["--limit", "80"])
    assert len(simulate(hot, [("readings", b'{"celsius": 81}')]).outputs) == 1


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_the_service_is_valid(tmp_path: Path) -> None:
    unit = block("ini")
    ((program, command),) = re.findall(r"^ExecStart=(\S+) (.*)$", unit, re.MULTILINE)
    assert_command(command)
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    file = tmp_path / "totals.service"
    file.write_text(unit.replace(program, "/bin/true"))
    done = subprocess.run([analyze, "verify", file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_commands_of_compose_are_valid() -> None:
    compose = yaml.safe_load(block("yaml"))
    for service in compose["services"].values():
        assert_command(service["command"])
    assert compose["volumes"] == {"state": None}


def assert_command(command: str) -> None:
    """Check that the command line *command* has only options that there are."""
    name, *options = command.split()
    found = main.get_command(click.Context(main), name)
    assert found is not None
    found.make_context(name, options)


def test_the_recipes_are_found() -> None:
    assert len(RECIPES) == 12
    assert len(IN_STATE) == 5
