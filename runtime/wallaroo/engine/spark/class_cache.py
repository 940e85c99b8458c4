"""Java's cache of loaded and linked classes, which saves a virtual machine half of its start.

Spark loads about fifteen thousand classes before its first epoch. A cache belongs to one Java and
one class path: it is stored next to Spark's jars, its name contains digests of Java's path and of
both, and a Java that cannot use it runs without. Java has it from version 25 on.
Source: JEP 483 and 514, ahead-of-time class loading and linking.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from wallaroo.engine.spark.java_version import home_of

MIN_VERSION = 25
"""Oldest Java that can have a cache."""
_QUIET = "-Xlog:aot*=off,cds*=off"


def cache_of(java: str, jars: Sequence[Path]) -> Path:
    """Return the path of the cache of *java* and a class path, which need not exist.

    Args:
        java: Path of `java`.
        jars: The class path, beginning with Spark's jars.
    """
    content = hashlib.sha256()
    classes = home_of(java) / "lib" / "modules"  # those of Java itself
    for file in (classes, *jars):
        if file.exists():
            status = file.stat()
            content.update(f"{file} {status.st_size} {status.st_mtime_ns}\n".encode())
    name = f"wallaroo-{_place_of(java)}-{content.hexdigest()[:16]}.aot"
    return jars[0].parent.parent / name


def remove_outdated(java: str, jars: Sequence[Path]) -> None:
    """Remove caches of earlier versions of *java* and the jars; arguments as of `cache_of`."""
    cache = cache_of(java, jars)
    for other in cache.parent.glob(f"wallaroo-{_place_of(java)}-*.aot"):
        if other != cache:
            other.unlink()


def using(java: str, jars: Sequence[Path]) -> list[str]:
    """Return the options with which *java* uses the cache; empty if it does not exist."""
    cache = cache_of(java, jars)
    return [f"-XX:AOTCache={cache}", _QUIET] if cache.exists() else []


def recording(file: Path) -> list[str]:
    """Return the options with which Java records what a cache needs to *file*, when it ends."""
    return ["-XX:AOTMode=record", f"-XX:AOTConfiguration={file}", _QUIET]


def creating(cache: Path, file: Path) -> list[str]:
    """Return the options with which Java creates a cache from what was recorded in *file*."""
    return ["-XX:AOTMode=create", f"-XX:AOTConfiguration={file}", f"-XX:AOTCache={cache}", _QUIET]


def _place_of(java: str) -> str:
    return hashlib.sha256(os.path.realpath(java).encode()).hexdigest()[:8]
