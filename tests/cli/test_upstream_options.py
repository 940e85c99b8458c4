"""The command line of Wallaroo's own workers, as far as `wallaroo run` takes it."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from wallaroo.cli.main import main
from wallaroo.cli.options import APPLICATION
from wallaroo.cli.upstream_options import UpstreamCommand


@click.command(cls=UpstreamCommand)
@APPLICATION
def shown(
    app: str, inputs: str, outputs: str, app_args: tuple[str, ...], **_others: object
) -> None:
    """Print what is taken."""
    click.echo(f"{app} {inputs} {outputs} {' '.join(app_args)}")


@pytest.mark.parametrize(
    ("args", "taken"),
    [
        (
            ["--application-module", "apps.count", "-i", "a:1", "-o", "b:2"],
            "apps/count.py a:1 b:2 ",
        ),
        (["--application-module=installed", "--in", "a:1", "-o", "b:2"], "installed a:1 b:2 "),
        (
            ["-i", "a:1", "-o", "b:2", "here", "--", "--application-module", "--metrics"],
            "here a:1 b:2 --application-module --metrics",
        ),
    ],
)
def test_an_application_is_given_as_upstream_gave_it(
    args: list[str], taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "count.py").touch()
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(shown, args)
    assert result.output == f"{taken}\n"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--metrics=127.0.0.1:5001", "--metrics is an option of the original Wallaroo"),
        ("--ponythreads=1", "there is no Pony runtime"),
        ("--resilience-dir=/tmp", "use --state-dir"),
        ("--worker-count=2", "use --workers"),
        ("--cluster-initializer", "--workers sets their number"),
    ],
)
def test_what_is_not_taken_is_refused_with_what_to_give(option: str, said: str) -> None:
    result = CliRunner().invoke(main, ["run", "--application-module", "app", option])
    assert result.exit_code == 2
    assert said in result.output


def test_a_module_has_to_be_named() -> None:
    result = CliRunner().invoke(main, ["run", "--application-module"])
    assert result.exit_code == 2
    assert "Traceback" not in result.output
