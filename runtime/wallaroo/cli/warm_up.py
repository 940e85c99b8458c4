"""`wallaroo warm-up`: makes later starts faster."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.system.private_files import as_outside, private_files
from wallaroo.system.process_end import how_ended

_SHOWN_LINES = 20
"""Lines that an error shows of what a command has printed."""
_APPLICATION = """\
import wallaroo


class Count:
    def __init__(self):
        self.lines = 0


@wallaroo.key_extractor
def first_letter(line):
    return line[:1]


@wallaroo.state_computation(name="count", state=Count)
def count(line, state):
    state.lines += 1
    return f"{line} {state.lines}"


@wallaroo.encoder
def encode(text):
    return text


def application_setup(args):
    lines = wallaroo.source("lines", wallaroo.FileSourceConfig("lines.txt", bytes.decode, "lines"))
    counts = lines.key_by(first_letter).to(count)
    return wallaroo.build_application(
        "warm up", counts.to_sink(wallaroo.FileSinkConfig("counts.txt", encode, "lines"))
    )
"""


@click.command("warm-up")
def warm_up() -> None:
    """Make later starts faster by caching the classes that Java loads for Spark.

    Runs a small application twice, and stores about 180 MB next to Spark. This takes a minute;
    later starts take half the time. Requires Java 25.
    """
    from wallaroo.engine.realtime.jar import jar
    from wallaroo.engine.spark.class_cache import (
        MIN_VERSION,
        cache_of,
        creating,
        recording,
        remove_outdated,
    )
    from wallaroo.engine.spark.java import class_path, find_java, java_command, spark_jars
    from wallaroo.engine.spark.java_version import version_of
    from wallaroo.engine.spark.unsigned_jars import make_copies

    java, more = find_java(), [jar()]
    version, jars = version_of(java), spark_jars()
    if version is None or version.major < MIN_VERSION:
        msg = f"only Java {MIN_VERSION} or newer can cache classes, and {java} is older"
        raise UsageError(msg)
    if os.access(jars.parent, os.W_OK):
        make_copies(sorted(jars.glob("*.jar")))  # of which there are classes in the cache
    cache = cache_of(java, class_path(more))
    if cache.exists():
        click.echo(f"{cache} exists already")
        return
    if not os.access(cache.parent, os.W_OK):
        msg = f"the cache must be next to Spark, but {cache.parent} is not writable"
        raise UsageError(msg)
    with tempfile.TemporaryDirectory(dir=cache.parent, prefix="warm-up-") as directory:
        made, recorded = Path(directory, cache.name), Path(directory, "recorded")
        Path(directory, "application.py").write_text(_APPLICATION)
        run = [sys.executable, "-m", "wallaroo", "run", ".", "--until-done", "--no-ui"]
        options = shlex.join(recording(recorded))
        # what is recorded is a run that resumes, for which Spark loads more classes
        for made_by, more_options, result in (
            ("first", [], Path(directory, "counts.txt")),
            ("second", ["--conf", f"spark.driver.extraJavaOptions={options}"], recorded),
        ):
            with Path(directory, "lines.txt").open("a") as lines:
                lines.writelines(f"{made_by} {n}\n" for n in range(1000))
            _run([*run, *more_options], directory, result)
        _run(java_command(java, "1g", creating(made, recorded), more), directory, made)
        with private_files():
            as_outside(made)  # what a run creates is private, but all users may use this cache
        made.replace(cache)
    remove_outdated(java, class_path(more))
    click.echo(f"created {cache}, {cache.stat().st_size >> 20} MB")


def _run(command: Sequence[str], directory: str, made: Path) -> None:
    """Run *command*, which makes the file *made*.

    Raises:
        RuntimeFailure: It has not.
    """
    ran = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if ran.returncode or not made.exists():
        without = "" if ran.returncode else f" and has not made {made.name}"
        output = (ran.stdout + ran.stderr).splitlines()[-_SHOWN_LINES:]
        msg = (
            f"the cache of Java's classes was not created, as {Path(command[0]).name} "
            f"{how_ended(ran.returncode)}{without}. Without it starts take longer; to try again, "
            "call `wallaroo warm-up`. The last lines that it printed:"
        )
        raise RuntimeFailure("\n".join([msg, *output]))
