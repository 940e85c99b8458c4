"""The examples of the page about explaining state, as they are printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from scripts import recording

from tests.history.harness import Recorded
from wallaroo.cli import explain, rehearse, replay, shadow
from wallaroo.cli.main import main
from wallaroo.cli.options import application_without_addresses

PAGE = (Path(__file__).parents[1] / "docs" / "explaining.md").read_text()
(CODE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CONSOLES = re.findall(
    r"```console\n\$ wallaroo (explain|rehearse|shadow) (\S+)([^\n]*)\n(.*?)```", PAGE, re.DOTALL
)
"""All but that of `promote`, which a test with a run compares."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    (tmp_path / "new").mkdir()
    (tmp_path / "orders.py").write_text(CODE)
    assert "totals.sum += number\n" in CODE
    changed = CODE.replace("+= number\n", "+= min(number, 10)\n")
    (tmp_path / "new" / "orders.py").write_text(changed)
    application = application_without_addresses(str(tmp_path / "orders.py"), ())
    recorded = Recorded(tmp_path / "state", application)
    recorded.run([("orders", b"ada 20"), ("orders", b"bob 3"), ("orders", b"ada 7")])
    recorded.close()
    return tmp_path


@pytest.mark.parametrize(("command", "app", "options", "shown"), CONSOLES)
def test_the_commands_print_what_the_page_shows(
    command: str, app: str, options: str, shown: str, directory: Path
) -> None:
    more = shlex.split(options.replace(".wallaroo/orders", str(directory / "state")))
    if command == "explain":
        more += ["--state-dir", str(directory / "state")]
    more += ["--for", "0.01"] if command == "shadow" else []
    asked = [command, str(directory / app), *more]
    done = CliRunner().invoke(main, asked)
    if command == "shadow":
        differences, _, progress = done.stderr.partition("3 messages run again")
        assert progress == ", up to date; 4 outputs and 1 entities differ\n"
        assert f"{differences}^C\n{done.stdout}" == shown
        return
    printed, _, echoed = shown.partition("$ echo $?\n")
    assert _TIME.sub("TIME", done.stdout) == _TIME.sub("TIME", printed)
    assert done.exit_code == int(echoed or 0)


def test_times_of_old_and_new_code_are_shown_as_on_the_page(directory: Path) -> None:
    (shown,) = re.findall(r"```\n(processor time .*?)```", PAGE, re.DOTALL)
    app, old = str(directory / "new" / "orders.py"), str(directory / "orders.py")
    asked = ["rehearse", app, "--state-dir", str(directory / "state"), "--baseline", old]
    done = CliRunner().invoke(main, asked)
    table = done.stdout[done.stdout.index("processor time") :]
    assert _without_figures(table) == _without_figures(shown)


def _without_figures(table: str) -> list[list[str]]:
    figure = re.compile(r"[\d.,]+|-|turns?:")
    return [
        [one for one in line.split() if not figure.fullmatch(one)] for line in table.split("\n")
    ]


def test_the_options_are_those_of_the_command() -> None:
    named = set(re.findall(r"`(--[a-z-]+)", PAGE)) - {"--keep-messages-gib", "--keep-messages-days"}
    of_explain = {name for one in explain.explain.params for name in one.opts}
    others = (*rehearse.rehearse.params, *shadow.shadow.params, *replay.replay.params)
    assert named <= of_explain | {name for one in others for name in one.opts}
    assert {name for name in of_explain if name.startswith("--")} - named == set()


def test_the_picture_shows_the_examples_of_the_page() -> None:
    assert recording.PICTURE.read_text() == recording.picture(), "call scripts/recording.py"
