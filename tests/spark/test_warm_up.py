"""The cache of Java's classes: used when it is there, and only for what it was made from."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from wallaroo.engine.realtime.jar import jar
from wallaroo.engine.spark.class_cache import cache_of, remove_outdated, using
from wallaroo.engine.spark.java import class_path, find_java, java_command, spark_jars
from wallaroo.engine.spark.unsigned_jars import make_copies, with_copies


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


def test_the_cache_that_setup_made_is_of_unsigned_jars_alone() -> None:
    if not using(find_java(), jars := class_path([jar()])):
        pytest.skip("`wallaroo warm-up` has not run")
    assert not [one for one in jars if _signatures(one)]
    assert [one for one in spark_jars().glob("*.jar") if _signatures(one)]


def _signatures(jar: Path) -> list[str]:
    with zipfile.ZipFile(jar) as opened:
        return [name for name in opened.namelist() if name.startswith("META-INF/DUMMY.")]


def _signed(jar: Path, content: str) -> None:
    with zipfile.ZipFile(jar, "w") as opened:
        opened.writestr(
            "META-INF/MANIFEST.MF", "Made-By: us\r\n\r\nName: One.class\r\nDigest: 1\r\n"
        )
        opened.writestr("META-INF/DUMMY.SF", "")
        opened.writestr("META-INF/DUMMY.DSA", "")
        opened.writestr("One.class", content)


def test_a_signed_jar_has_a_copy_without_signatures_and_with_all_else(tmp_path: Path) -> None:
    (other,) = _jars(tmp_path, b"")
    with zipfile.ZipFile(other, "w") as opened:
        opened.writestr("META-INF/SF", "")
    signed = other.with_name("signed.jar")
    _signed(signed, "first")
    assert with_copies([other, signed]) == [other, signed]
    make_copies([other, signed])
    first, copy = with_copies([other, signed])
    assert first == other
    with zipfile.ZipFile(copy) as opened:
        assert {name: opened.read(name) for name in opened.namelist()} == {
            "META-INF/MANIFEST.MF": b"Made-By: us\r\n\r\n",
            "One.class": b"first",
        }
    assert cache_of("java", [copy]).parent == cache_of("java", [signed]).parent == tmp_path


def test_a_copy_of_what_is_no_longer_there_is_not_used_and_is_removed(tmp_path: Path) -> None:
    (jar,) = jars = _jars(tmp_path, b"")
    _signed(jar, "first")
    make_copies(jars)
    (outdated,) = with_copies(jars)
    _signed(jar, "longer than the first")
    assert with_copies(jars) == jars
    make_copies(jars)
    (copy,) = with_copies(jars)
    assert copy != outdated
    assert list(copy.parent.iterdir()) == [copy]


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
