"""Copies of Spark's signed jars without their signatures, for Java's cache of classes.

Java leaves the classes of signed jars out of a cache, and checks the signature of each when it
loads it. Janino's jars are signed, and each start compiles with Janino: that costs half a second of
a core. Nothing relies on the signatures, which are by a certificate that nobody has to trust.

Copies lie in a directory next to that of Spark's jars. The name of each has a digest of what it was
made from, so that another PySpark in the same place does not use it.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

_SIGNATURE = re.compile(r"META-INF/[^/]+\.(SF|DSA|RSA|EC)", re.IGNORECASE)
_MANIFEST = "META-INF/MANIFEST.MF"
_SECTION = re.compile(rb"\r?\n\r?\n")
"""What ends a section of a manifest; the first one is of the whole jar."""


def with_copies(jars: Sequence[Path]) -> list[Path]:
    """Return *jars*, with the copies that exist in place of what they were made from.

    Args:
        jars: Jars of Spark's directory.
    """
    there = set(_copies(jars))
    names = {copy.name.partition("-")[2] for copy in there}
    return [copy if jar.name in names and (copy := _copy_of(jar)) in there else jar for jar in jars]


def make_copies(jars: Sequence[Path]) -> None:
    """Make the copies of those of *jars* that are signed, and remove outdated ones.

    Args:
        jars: All jars of Spark's directory.
    """
    made = set()
    for jar in jars:
        with zipfile.ZipFile(jar) as signed:
            if not any(map(_SIGNATURE.fullmatch, signed.namelist())):
                continue
            copy = _copy_of(jar)
            made.add(copy)
            if not copy.exists():
                copy.parent.mkdir(exist_ok=True)
                fresh = copy.with_suffix(f".{os.getpid()}")
                _write_unsigned(signed, fresh)
                fresh.replace(copy)
    for copy in {*_copies(jars)} - made:
        copy.unlink()


def _write_unsigned(signed: zipfile.ZipFile, file: Path) -> None:
    """Write what is *signed* to *file*, without signatures and the digests of all entries."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as unsigned:
        for entry in signed.infolist():
            if not _SIGNATURE.fullmatch(entry.filename):
                content = signed.read(entry)
                if entry.filename == _MANIFEST:
                    content = _SECTION.split(content, 1)[0] + b"\r\n\r\n"
                unsigned.writestr(entry, content)


def _copy_of(jar: Path) -> Path:
    status = jar.stat()
    digest = hashlib.sha256(f"{status.st_size} {status.st_mtime_ns}".encode()).hexdigest()[:16]
    return _place_of(jar) / f"{digest}-{jar.name}"


def _place_of(jar: Path) -> Path:
    return jar.parents[1] / "wallaroo-unsigned"


def _copies(jars: Sequence[Path]) -> Iterator[Path]:
    """All copies next to the directory of *jars*, also outdated ones."""
    for place in {_place_of(jar) for jar in jars}:
        yield from place.glob("*.jar")
