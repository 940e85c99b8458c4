"""Versions of Java, and the line about one that lacks security updates."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from wallaroo.engine.spark.java import find_java
from wallaroo.engine.spark.java_version import JavaVersion, version_of, warn_if_outdated


def java(directory: Path, says: str) -> str:
    """A program that says *says* of its version."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o700)
    return str(program)


def released(days_ago: int) -> date:
    return datetime.now(UTC).date() - timedelta(days_ago)


def test_a_java_older_than_two_quarters_is_one_line(tmp_path: Path) -> None:
    program = java(tmp_path, f'openjdk version "21.0.4" {released(200)} LTS')
    with capture_logs() as logs:
        warn_if_outdated(program)
    assert logs == [
        {
            "event": "Java lacks security updates",
            "log_level": "warning",
            "version": "21.0.4",
            "released": str(released(200)),
            "path": program,
            "remedy": "update it, or set JAVA_HOME to a newer one; on a cluster, build a new image",
        }
    ]


@pytest.mark.parametrize(
    "says",
    [
        f'openjdk version "25.0.2" {released(150)}',
        'java version "17"',
        "no version",
    ],
)
def test_nothing_is_said_of_a_newer_java_or_of_one_without_a_date(
    says: str, tmp_path: Path
) -> None:
    program = java(tmp_path, says)
    with capture_logs() as logs:
        warn_if_outdated(program)
    assert logs == []


def test_the_first_java_that_is_new_enough_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = java(tmp_path / "old", 'openjdk version "11.0.2" 2019-01-15')
    new = java(tmp_path / "new", 'openjdk version "17-ea" 2021-09-14')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "new"))
    assert find_java() == new
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert find_java() != old
    (tmp_path / "old" / "release").write_text('IMPLEMENTOR="X"\nJAVA_VERSION="17.0.1"\n')
    assert find_java() == old  # which is not started to ask
    assert version_of(old) == JavaVersion("11.0.2", 11, date(2019, 1, 15))
