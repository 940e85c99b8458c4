"""`wallaroo new`: what it makes passes its own test, the checks of this project, and runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.helpers import MYPY_CACHES, ROOT
from tests.spark.harness import Receiver, run, send
from wallaroo.cli.main import main

FILES = {".gitignore", "README.md", "application.py", "test_application.py"}


def new(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["new", *map(str, arguments)])


def python(*arguments: object, directory: Path) -> str:
    """Run a module in a process of its own, as its author would; returns what it printed."""
    command = [sys.executable, "-m", *map(str, arguments)]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def mypy_cache() -> Iterator[None]:
    """One cache of mypy for all that is made here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MYPY_CACHE_DIR", str(MYPY_CACHES / "new"))
        yield


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    directory = tmp_path / "ratings"
    result = new("ratings", "--directory", directory)
    assert result.exit_code == 0, result.output
    return directory


def test_the_files_are_named_and_bear_the_name(ratings: Path) -> None:
    assert {file.name for file in ratings.iterdir()} == FILES
    for file in FILES - {".gitignore"}:
        assert "ratings" in (ratings / file).read_text()
        assert "{{" not in (ratings / file).read_text()


def test_without_a_directory_it_is_made_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = new("ratings")
    assert "  run it    wallaroo run ratings --in - --out -" in result.output
    assert (tmp_path / "ratings" / "application.py").is_file()


def test_its_own_test_passes_from_inside_and_from_outside(ratings: Path) -> None:
    assert "5 passed" in python("pytest", "-q", "-W", "error", directory=ratings)
    assert "5 passed" in python("pytest", "-q", "ratings", directory=ratings.parent)


def test_it_is_well_formed(ratings: Path) -> None:
    told = python("wallaroo", "check", ".", directory=ratings)
    assert "Amounts → tidy → add up [add up] → sink" in told


def test_it_is_typed_linted_and_formatted(ratings: Path) -> None:
    python("mypy", "--strict", ".", directory=ratings)
    config = ROOT / "pyproject.toml"
    ignored = ["--ignore", "D103,PLR2004"]  # as in the project's own tests
    python("ruff", "check", "--config", config, *ignored, ".", directory=ratings)
    python("ruff", "format", "--check", "--config", config, ".", directory=ratings)


TRIED = {
    "windows": (["kitchen 20", "kitchen 21"], ["--until", "10"], ["00:00:10 kitchen: 20.5 of 2"]),
    "join": (
        ["17 espresso 2.50"],
        ["--from", "Orders=-", "--from", "Payments=payments"],
        ["17: espresso for 2.50, paid by card"],
    ),
    "fraud": (
        ["2026-03-01T12:00:00Z a 5 GB", "2026-03-01T12:30:00Z a 70 FR"],
        [],
        ["12:30:00 a: 70.00, used in FR and in GB"],
    ),
    "http": (["espresso 2.50 XYZ", "nothing"], ["--", "--rates", "http://127.0.0.1:9"], []),
    "counting": (["apples 3", "apples 5"], [], ["apples: 3", "apples: 8"]),
}
"""For each template what goes into a simulation, its options, and what goes out."""


@pytest.mark.parametrize("template", TRIED)
def test_each_template_passes_its_test_and_the_checks_and_runs(
    template: str, tmp_path: Path
) -> None:
    directory = tmp_path / "made"
    result = new("made", "--directory", directory, "--template", template)
    assert result.exit_code == 0, result.output
    assert "{{" not in "".join(file.read_text() for file in directory.iterdir())
    python("pytest", "-q", "-W", "error", directory=directory)
    assert "made is well formed" in python("wallaroo", "check", ".", directory=directory)
    python("mypy", "--strict", ".", directory=directory)
    config = ROOT / "pyproject.toml"
    ignored = ["--ignore", "D103,PLR2004,N802,S310"]
    python("ruff", "check", "--config", config, *ignored, ".", directory=directory)
    python("ruff", "format", "--check", "--config", config, ".", directory=directory)
    lines, options, outputs = TRIED[template]
    (directory / "payments").write_text("17 card\n")
    done = subprocess.run(
        [sys.executable, "-m", "wallaroo", "simulate", ".", *options],
        input="".join(f"{line}\n" for line in lines),
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == outputs


def test_the_templates_are_listed() -> None:
    told = CliRunner().invoke(main, ["new", "--help"]).output
    for template in TRIED:
        assert f"\n    {template} " in told


def test_how_to_run_a_template_names_all_its_addresses(tmp_path: Path) -> None:
    for template in TRIED:
        result = new("made", "--directory", tmp_path / template, "--template", template)
        line = result.output.splitlines()[-1].partition("wallaroo run ")[2]
        assert (
            f"wallaroo run . {line.partition(' ')[2]}"
            in (tmp_path / template / "README.md").read_text()
        )


@pytest.mark.parametrize(
    "name", ["", "../up", "a/b", "7up", "-x", "ümlaut", "a b", "x" * 64, "a\n"]
)
def test_what_cannot_be_a_name_is_refused(name: str, tmp_path: Path) -> None:
    result = new("--directory", tmp_path / "it", "--", name)
    assert result.exit_code == 2
    assert f"{name!r} is not a valid name for an application" in result.output
    assert not (tmp_path / "it").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text("mine")
    result = new("ratings", "--directory", tmp_path)
    assert result.exit_code == 2
    assert f"{tmp_path} exists and is not empty" in result.output
    assert [file.read_text() for file in tmp_path.iterdir()] == ["mine"]


def test_an_empty_directory_will_do(tmp_path: Path) -> None:
    assert new("ratings", "--directory", tmp_path).exit_code == 0


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / "deeper"):
        result = new("ratings", "--directory", directory)
        assert result.exit_code == 1
        assert f"cannot create {directory}: " in result.output


@pytest.mark.spark
def test_it_runs(ratings: Path, tmp_path: Path) -> None:
    with Receiver("lines") as receiver, run(ratings, receiver, tmp_path / "state") as running:
        send(running.sources["Amounts"], [b"apples 3", b"pears 1", b"APPLES 5", b"plums 0"])
        received = receiver.wait_for(3)
        assert running.stop() == 0
    assert sorted(received) == [b"apples: 3\n", b"apples: 8\n", b"pears: 1\n"]
    assert receiver.messages == received
