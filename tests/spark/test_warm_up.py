"""The cache of Java's classes: used when it is there, and only for what it was made from."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from wallaroo.engine.realtime.jar import jar
from wallaroo.engine.spark.class_cache import cache_of, remove_outdated, using
from wallaroo.engine.spark.java import class_path, find_java, java_command


def test_java_takes_the_cache_that_setup_made(tmp_path: Path) -> None:
    java, more = find_java(), [jar()]
    if not (options := using(java, class_path(more))):
        pytest.skip("`wallaroo warm-up` has not run")
    with zipfile.ZipFile(tmp_path / "other.jar", "w") as other:
        other.writestr("content", "")
    for jars in (more, [*more, tmp_path / "other.jar"]):  # as those for S3
        command = java_command(java, "64m", ["-XX:AOTMode=on", *options], jars)
        told = subprocess.run([*command, "-version"], capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stdout + told.stderr


def test_other_jars_have_no_cache(tmp_path: Path) -> None:
    jars = _jars(tmp_path, b"one")
    before = cache_of("java", jars)
    before.touch()
    assert f"-XX:AOTCache={before}" in using("java", jars)
    _jars(tmp_path, b"other")
    assert using("java", jars) == []


def test_another_java_in_the_place_of_the_first_has_no_cache(tmp_path: Path) -> None:
    jars, home = _jars(tmp_path, b"one"), tmp_path / "java"
    java, classes = home / "bin" / "java", home / "lib" / "modules"
    for directory in (java.parent, classes.parent):
        directory.mkdir(parents=True)
    classes.write_bytes(b"25")
    cache_of(str(java), jars).touch()
    assert using(str(java), jars)
    classes.write_bytes(b"25.0.1")
    assert using(str(java), jars) == []


def test_caches_of_what_is_no_longer_there_are_removed_and_no_others(tmp_path: Path) -> None:
    jars = _jars(tmp_path, b"one")
    old, others = cache_of("java", jars), cache_of("another/java", jars)
    _jars(tmp_path, b"other")
    new = cache_of("java", jars)
    for cache in (old, others, new):
        cache.touch()
    remove_outdated("java", jars)
    assert set(tmp_path.glob("*.aot")) == {others, new}


def _jars(directory: Path, content: bytes) -> list[Path]:
    jar = directory / "jars" / "one.jar"
    jar.parent.mkdir(exist_ok=True)
    jar.write_bytes(content)
    return [jar]
