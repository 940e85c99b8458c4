"""`wallaroo warm-up`: makes later starts faster."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.system.private_files import as_outside, private_files

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
    """Make later starts faster by archiving the classes that this Java loads for this Spark.

    Runs a small application once, and stores about 190 MB next to Spark. This takes half a minute;
    later starts use a third less CPU time.
    """
    from wallaroo.engine.realtime.jar import jar
    from wallaroo.engine.spark.archive import archive_of, recording_options, remove_outdated
    from wallaroo.engine.spark.java import find_java, spark_jars

    java, jars, more = find_java(), spark_jars(), [jar()]
    archive = archive_of(java, jars, more)
    if archive.exists():
        click.echo(f"{archive} exists already")
        return
    if not os.access(archive.parent, os.W_OK):
        msg = f"the archive must be next to Spark, but {archive.parent} is not writable"
        raise UsageError(msg)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="warm-up-") as directory:
        made = Path(directory, archive.name)
        options = recording_options(java, archive, made)
        Path(directory, "application.py").write_text(_APPLICATION)
        Path(directory, "lines.txt").write_text("".join(f"{n}\n" for n in range(1000)))
        recording = subprocess.run(
            [
                *(sys.executable, "-m", "wallaroo", "run", ".", "--until-done", "--no-ui"),
                *("--conf", f"spark.driver.extraJavaOptions={shlex.join(options)}"),
            ],
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
        )
        if recording.returncode or not made.exists():
            msg = (
                f"the archive of Java's classes was not created: {recording.stderr.strip()[-500:]}"
            )
            raise RuntimeFailure(msg)
        with private_files():
            as_outside(made)  # what a run creates is private, but all users may use this archive
        made.replace(archive)
    remove_outdated(java, jars, more)
    click.echo(f"created {archive}, {archive.stat().st_size >> 20} MB")
