"""What goes into an image, without building one."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.helpers import ROOT

IMAGE = ROOT / "image"


def wheel_of(directory: Path, name: str) -> str:
    """Write a wheel of an empty package *name* to *directory*; returns its digest."""
    info = f"{name}-1.0.dist-info"
    path = directory / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A directory for wheels, and constraints beside it."""
    (tmp_path / "constraints.txt").write_text("numpy==2.4.0\n")
    (tmp_path / "wheels").mkdir()
    return tmp_path / "wheels"


def install(tmp_path: Path, requirements: str | None) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "requirements.txt"
    if requirements is not None:
        file.write_text(requirements)
    command: list[str | Path] = [
        *("sh", IMAGE / "requirements.sh", file, tmp_path / "constraints.txt", tmp_path / "target"),
        *(sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--isolated"),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_requirements_with_hashes_are_held_against_them(tmp_path: Path, wheels: Path) -> None:
    first, second = wheel_of(wheels, "first"), wheel_of(wheels, "second")
    options = f"--no-index\n--find-links {wheels}\n"
    done = install(tmp_path, f"{options}first==1.0 --hash=sha256:{first}\n")
    assert done.returncode == 0, done.stderr
    assert "with hashes" in done.stdout
    assert (tmp_path / "target" / "first.py").exists()
    for wrong in (
        f"first==1.0 --hash=sha256:{second}\n",
        f"first==1.0 --hash=sha256:{first}\nsecond==1.0\n",
    ):
        done = install(tmp_path, options + wrong)
        assert done.returncode, wrong
        assert "hash" in done.stderr.lower()


def test_requirements_without_hashes_are_installed_and_said_to_have_none(
    tmp_path: Path, wheels: Path
) -> None:
    wheel_of(wheels, "first")
    done = install(tmp_path, f"--no-index\n--find-links {wheels}\nfirst\n")
    assert done.returncode == 0, done.stderr
    assert "has no hashes" in done.stdout
    assert (tmp_path / "target" / "first.py").exists()


def test_an_application_without_requirements_needs_none(tmp_path: Path) -> None:
    done = install(tmp_path, None)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_trimming_leaves_every_licence(tmp_path: Path) -> None:
    licences = (
        "pyspark/licenses/LICENSE-re2j.txt",
        "pyspark-4.3.0.dist-info/licenses/NOTICE",
        "numpy-2.4.0.dist-info/licenses/numpy/fft/LICENSE.txt",
    )
    for name in (*licences, "pyspark/ml/base.py", "pyspark/jars/spark-mllib_2.13-4.3.0.jar"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    subprocess.run([sys.executable, IMAGE / "trim.py", tmp_path], check=True)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {*licences}


def test_the_system_keeps_the_licences_of_its_packages(tmp_path: Path) -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    (removed,) = re.findall(r"rm -rf (/var/lib/apt/lists.*?) \\", dockerfile)
    assert "/usr/share/doc" not in removed
    (command,) = re.findall(r"(find /usr/share/doc .*?) \\", dockerfile)
    for name in ("tini/copyright", "tini/README", "zlib1g/copyright"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "libstdc++6").symlink_to("zlib1g")  # packages of one source share a directory
    subprocess.run(["sh", "-c", command.replace("/usr/share/doc", str(tmp_path))], check=True)
    assert not (tmp_path / "tini" / "README").exists()
    for package in ("tini", "zlib1g", "libstdc++6"):
        assert (tmp_path / package / "copyright").exists()


def test_java_comes_with_its_licence(tmp_path: Path) -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    (command,) = re.findall(r"(mkdir -p /opt/java/legal .*?) \\", dockerfile)
    assert "COPY --from=java /opt/java /opt/java" in dockerfile.split("\nUSER ")[0]
    package = tmp_path / "usr" / "share" / "doc" / "openjdk-17-jre-headless"
    package.parent.mkdir(parents=True)
    (package.parent / "openjdk").mkdir()
    (package.parent / "openjdk" / "copyright").write_text("the licence")
    package.symlink_to("openjdk")
    subprocess.run(["sh", "-c", command.replace(" /", f" {tmp_path}/")], check=True)
    kept = tmp_path / "opt" / "java" / "legal" / "copyright"
    assert (kept.is_symlink(), kept.read_text()) == (False, "the licence")


APT_GET = """#!/bin/sh
echo "$@" >>"$LOG"
"""


def test_what_runs_has_the_updates_of_the_distribution(tmp_path: Path) -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    stages = re.split(r"^FROM ", dockerfile, flags=re.MULTILINE)[1:]
    ends_up = [stage for stage in stages if stage.startswith(("${BASE} AS java\n", "${BASE}\n"))]
    assert len(ends_up) == 2
    for stage in ends_up:
        assert "ARG UPDATES" in stage.partition("apt-get")[0]  # a new date makes the layer anew
    (tmp_path / "apt-get").write_text(APT_GET)
    (tmp_path / "apt-get").chmod(0o755)
    command = re.search(r"^RUN (.*?) \\\n && rm -rf", stages[-1], re.MULTILINE | re.DOTALL)
    assert command is not None
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "LOG": str(tmp_path / "log")}
    subprocess.run(["sh", "-c", command[1]], env=environment, check=True)
    done = (tmp_path / "log").read_text().splitlines()
    assert [line.split()[0] for line in done] == ["update", "upgrade", "install"]
