"""An application outside this repository: `wallaroo build` makes its image, and it runs there."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.harness import CommandFailedError, run
from tests.helpers import ROOT
from wallaroo.cli.build import ENGINES

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

ENGINE = os.environ.get("WALLAROO_TEST_ENGINE")
"""What builds images, if not the first that is there."""
OPTIONS = shlex.split(os.environ.get("WALLAROO_TEST_BUILD_OPTIONS", ""))
"""What `wallaroo build` needs on this machine besides."""
APPLICATION = """
import pathlib

import sortedcontainers
import wallaroo

WORDS = pathlib.Path(__file__).with_name("words.txt")


class Seen:
    def __init__(self):
        self.lengths = sortedcontainers.SortedList()


@wallaroo.key_extractor
def initial(word):
    return word[:1]


@wallaroo.state_computation(name="longest", state=Seen)
def longest(word, seen):
    seen.lengths.add(len(word))
    return f"{word} {seen.lengths[-1]} of {len(seen.lengths)}"


@wallaroo.encoder
def encode(text):
    return text


def application_setup(args):
    words = wallaroo.source("words", wallaroo.FileSourceConfig(str(WORDS), bytes.decode, "lines"))
    results = words.key_by(initial).to(longest)
    return wallaroo.build_application(
        "longest", results.to_sink(wallaroo.FileSinkConfig("/tmp/results.txt", encode, "lines"))
    )
"""
"""Needs a package that is no part of the runtime."""
PROGRAM = """
import subprocess, sys
command = ["wallaroo", "run", "/app", "--until-done", "--no-ui", "--state-dir", "/tmp/state"]
done = subprocess.run(command, cwd="/tmp", stderr=subprocess.PIPE, text=True)
sys.stderr.write(done.stderr)
print(open("/tmp/results.txt").read(), end="")
sys.exit(done.returncode)
"""
WORDS = [f"{'abc'[n % 3]}{'x' * (n * 7 % 11)}" for n in range(300)]


@pytest.fixture
def engine() -> str:
    """What builds images here."""
    found = ENGINE or next(filter(shutil.which, ENGINES), None)
    if found is None:
        pytest.skip(f"none of {', '.join(ENGINES)} is here")
    return found


@pytest.fixture
def image(engine: str) -> Iterator[str]:
    """A name for an image, which is removed in the end."""
    name = f"localhost/wallaroo-test:{secrets.token_hex(4)}"
    yield name
    run([engine, "rmi", name])


@pytest.fixture
def run_in(engine: str) -> Iterator[Callable[..., str]]:
    """Calls a command in a container of an image."""
    containers: list[str] = []

    def call(image: str, program: str, *arguments: str) -> str:
        if engine != "buildah":
            return run([engine, "run", "--rm", "--entrypoint", program, image, *arguments])
        containers.append(f"wallaroo-test-{secrets.token_hex(4)}")
        run([engine, "from", "--name", containers[-1], image])
        return run([engine, "run", "--network=host", containers[-1], "--", program, *arguments])

    yield call
    for container in containers:
        run([engine, "rm", container])


def due() -> dict[str, list[str]]:
    """By initial, what comes of the words."""
    longest: dict[str, int] = {}
    seen: Counter[str] = Counter()
    lines: dict[str, list[str]] = {}
    for word in WORDS:
        longest[word[0]] = max(longest.get(word[0], 0), len(word))
        seen[word[0]] += 1
        lines.setdefault(word[0], []).append(f"{word} {longest[word[0]]} of {seen[word[0]]}")
    return lines


def test_it_builds_with_its_requirements_and_runs_in_its_image(
    tmp_path: Path, engine: str, image: str, run_in: Callable[..., str]
) -> None:
    (tmp_path / "application.py").write_text(APPLICATION)
    (tmp_path / "requirements.txt").write_text("sortedcontainers==2.4.0\n")
    (tmp_path / "words.txt").write_text("".join(f"{word}\n" for word in WORDS))
    build = [sys.executable, "-m", "wallaroo", "build", str(tmp_path), "-t", image]
    assert f"{image} contains longest" in run([*build, "--engine", engine, *OPTIONS])
    outputs: dict[str, list[str]] = {}
    for line in run_in(image, "python3", "-c", PROGRAM).splitlines():
        outputs.setdefault(line[0], []).append(line)
    assert outputs == due()
    program = (ROOT / "scripts/inventory.py").read_text()
    parts = json.loads(run_in(image, "python3", "-c", program))
    found = {part["name"]: part for part in parts}
    assert found["sortedcontainers"]["version"] == "2.4.0"
    assert found["tini"]["kind"] == "deb"
    assert {"openjdk", "pyspark", "numpy"} <= found.keys()


def test_an_application_that_does_not_load_makes_no_image(tmp_path: Path, engine: str) -> None:
    (tmp_path / "application.py").write_text("import no_such_package\n")
    build = [sys.executable, "-m", "wallaroo", "build", str(tmp_path), "-t", "localhost/none:0"]
    with pytest.raises(CommandFailedError, match="no_such_package"):
        run([*build, "--engine", engine, *OPTIONS])
