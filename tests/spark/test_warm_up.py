"""The archive of Java's classes: used when it is there, and only for what it was made from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from wallaroo.engine.realtime.jar import jar
from wallaroo.engine.spark.archive import archive_of, remove_outdated, sharing_options
from wallaroo.engine.spark.java import find_java, java_command, spark_jars


def test_java_takes_the_archive_that_setup_made() -> None:
    java, jars, more = find_java(), spark_jars(), [jar()]
    if not archive_of(java, jars, more).exists():
        pytest.skip("`wallaroo warm-up` has not run")
    options = [
        "-Xshare:on" if o == "-Xshare:auto" else o for o in sharing_options(java, jars, more)
    ]
    command = java_command(java, "64m", options, more)
    told = subprocess.run([*command, "-version"], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


def test_other_jars_have_no_archive(tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "one.jar").write_bytes(b"one")
    before = archive_of("java", jars)
    before.touch()
    assert f"-XX:SharedArchiveFile={before}" in sharing_options("java", jars, [])
    (jars / "one.jar").write_bytes(b"other")
    assert sharing_options("java", jars, []) == []


def test_another_java_in_the_place_of_the_first_has_no_archive(tmp_path: Path) -> None:
    jars, home = tmp_path / "jars", tmp_path / "java"
    java, classes = home / "bin" / "java", home / "lib" / "modules"
    for directory in (jars, java.parent, classes.parent):
        directory.mkdir(parents=True)
    classes.write_bytes(b"21")
    before = archive_of(str(java), jars)
    before.touch()
    assert sharing_options(str(java), jars, [])
    classes.write_bytes(b"25.0")
    assert sharing_options(str(java), jars, []) == []


def test_archives_of_what_is_no_longer_there_are_removed_and_no_others(tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "one.jar").write_bytes(b"one")
    old, others = archive_of("java", jars), archive_of("another/java", jars)
    (jars / "one.jar").write_bytes(b"other")
    new = archive_of("java", jars)
    for archive in (old, old.with_suffix(".base.jsa"), others, new, new.with_suffix(".base.jsa")):
        archive.touch()
    remove_outdated("java", jars, [])
    kept = {others, new, new.with_suffix(".base.jsa")}
    assert set(tmp_path.glob("*.jsa")) == kept
