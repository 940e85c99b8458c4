"""Versions of Java: their numbers, and the quarterly security updates that they lack."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path

import structlog

_TWO_QUARTERS = timedelta(days=2 * 92)
_IN_RELEASE = re.compile(r'^JAVA_VERSION="(\d+)', re.MULTILINE)
_VERSION = re.compile(r'version "((\d+)[^"]*)"(?: (\d{4}-\d\d-\d\d))?')

log = structlog.get_logger("wallaroo")


@dataclass(frozen=True)
class JavaVersion:
    """What `java -version` says.

    Example:
        >>> told = JavaVersion.parse('openjdk version "25.0.2" 2026-01-20 LTS')
        >>> (told.text, told.major, told.released)
        ('25.0.2', 25, datetime.date(2026, 1, 20))
        >>> told.lacks_updates(date(2026, 7, 20)), told.lacks_updates(date(2026, 7, 25))
        (False, True)
    """

    text: str
    major: int
    released: date | None
    """None if it does not say when."""

    @classmethod
    def parse(cls, output: str) -> JavaVersion:
        """Read the output of `java -version`.

        Raises:
            ValueError: It names no version.
        """
        match = _VERSION.search(output)
        if match is None:
            msg = f"{output!r} names no version of Java"
            raise ValueError(msg)
        text, major, released = match.groups()
        return cls(text, int(major), None if released is None else date.fromisoformat(released))

    def lacks_updates(self, today: date) -> bool:
        """Whether it was released more than two quarters before *today*."""
        return self.released is not None and today - self.released > _TWO_QUARTERS


@cache
def version_of(java: str) -> JavaVersion | None:
    """The version of the program *java*; None if it is none."""
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        return JavaVersion.parse(result.stderr)
    except (OSError, ValueError):
        return None


def home_of(java: str) -> Path:
    """Return the home directory of the Java to which the program *java* belongs."""
    return Path(os.path.realpath(java)).parents[1]


def major_version(java: str) -> int | None:
    """The version of the program *java*, of 25.0.2 the 25; None if it is none.

    It is in a file of each Java's home; to ask the program would take as long as all else before
    Spark starts.
    """
    if os.access(java, os.X_OK):
        try:
            found = _IN_RELEASE.search((home_of(java) / "release").read_text())
        except (OSError, ValueError):
            found = None
        if found is not None:
            return int(found[1])
    version = version_of(java)
    return None if version is None else version.major


def warn_if_outdated(java: str) -> None:
    """Log a line if *java* lacks the security updates of two quarters."""
    version = version_of(java)
    if version is not None and version.lacks_updates(datetime.now(UTC).date()):
        log.warning(
            "Java lacks security updates",
            version=version.text,
            released=str(version.released),
            path=java,
            remedy="update it, or set JAVA_HOME to a newer one; on a cluster, build a new image",
        )
