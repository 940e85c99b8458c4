"""The wheel and the source distribution are whole: all that a checkout has works from them."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.helpers import ROOT, unpack
from wallaroo.engine.realtime.jar import SOURCES, jar


def build(target: str, source: Path, destination: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(destination)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (made,) = destination.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return made


def content(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    jar()
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a new virtual environment with *wheel*, and this one's other packages."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    (site,) = environment.glob("lib/python*/site-packages")
    # a path in a .pth file has no .pth files of its own: the editable project is not seen
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", f"--python={python}", "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--disable-pip-version-check", "-q", str(wheel)], check=True)
    return environment / "bin" / "wallaroo"


def call(command: Path, *arguments: str, directory: Path) -> str:
    done = subprocess.run(
        [command, *arguments], cwd=directory, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_has_the_jar_of_the_real_time_engine_and_its_sources(wheel: Path) -> None:
    made, files = jar(), content(wheel)
    (packed,) = [name for name in files if name.endswith(".jar")]
    assert files[packed] == made.read_bytes()
    folder = "wallaroo/engine/realtime/jvm"
    assert packed == f"{folder}/{made.name}"
    assert {f"{folder}/{source.name}" for source in SOURCES} <= set(files)


def test_the_source_distribution_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    packed = build("sdist", ROOT, tmp_path / "sdist")
    unpack(packed, tmp_path)
    (unpacked,) = tmp_path.glob("wallaroo-*")
    again = build("wheel", unpacked, tmp_path / "wheel")
    assert content(again) == content(wheel)


def test_an_installed_wheel_makes_applications_and_charts(installed: Path, tmp_path: Path) -> None:
    python, code = installed.parent / "python", "import wallaroo; print(wallaroo.__file__)"
    assert call(python, "-c", code, directory=tmp_path).startswith(str(installed.parents[1]))
    call(installed, "new", "ratings", directory=tmp_path)
    assert "is well formed" in call(installed, "check", "ratings", directory=tmp_path)
    call(installed, "chart", "ratings", "--directory", "chart", directory=tmp_path)
    library = (tmp_path / "chart" / "charts" / "wallaroo" / "values.yaml").read_bytes()
    assert library == (ROOT / "helm" / "wallaroo" / "values.yaml").read_bytes()


def test_an_installed_wheel_has_all_that_an_image_is_built_from(
    installed: Path, tmp_path: Path
) -> None:
    engine = tmp_path / "bin" / "docker"
    engine.parent.mkdir()
    engine.write_text(
        f'#!/bin/sh\n[ "$1" != build ] || cp -r "$(eval echo \\${{$#}})" {tmp_path}/context\n'
    )
    engine.chmod(0o755)
    call(installed, "new", "ratings", directory=tmp_path)
    subprocess.run(
        [installed, "build", "ratings", "-t", "localhost/ratings"],
        cwd=tmp_path,
        env={"PATH": f"{engine.parent}:/usr/bin:/bin"},
        check=True,
        capture_output=True,
    )
    context = tmp_path / "context"
    for name in ("Dockerfile", "requirements.lock", "image/trim.py"):
        assert (context / name).read_bytes() == (ROOT / name).read_bytes()
    wheel = build("wheel", context, tmp_path / "again")
    assert "wallaroo/shipped/apps/word_count/application.py" in content(wheel)


@pytest.mark.spark
def test_an_installed_wheel_runs_its_demo(installed: Path, tmp_path: Path) -> None:
    said = call(installed, "demo", "market_spread", "--messages", "5000", directory=tmp_path)
    assert "OK: all" in said
