"""Java's archive of loaded classes, which a virtual machine maps instead of loading them again.

Spark loads about fifteen thousand classes before its first epoch, which takes a third of its start.
An archive belongs to one Java and one set of jars: it is stored next to Spark's, its name contains
digests of Java's path and of both, and a Java that cannot use it runs without (`-Xshare:auto`).
Source: JEP 350, dynamic archives.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from wallaroo.errors import RuntimeFailure

_QUIET = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def home_of(java: str) -> Path:
    """Return the home directory of the Java to which the program *java* belongs."""
    return Path(os.path.realpath(java)).parents[1]


def archive_of(java: str, jars: Path, more: Sequence[Path] = ()) -> Path:
    """Return the path of the archive of *java* and the jars of Spark, which need not exist.

    Args:
        java: Path of `java`.
        jars: Directory of Spark's jars.
        more: Jars that are loaded after them.
    """
    content = hashlib.sha256()
    classes = home_of(java) / "lib" / "modules"  # those of Java itself
    for file in (classes, *sorted(jars.glob("*.jar")), *more):
        if file.exists():
            status = file.stat()
            content.update(f"{file} {status.st_size} {status.st_mtime_ns}\n".encode())
    return jars.parent / f"wallaroo-{_place_of(java)}-{content.hexdigest()[:16]}.jsa"


def remove_outdated(java: str, jars: Path, more: Sequence[Path]) -> None:
    """Remove archives of earlier versions of *java* and the jars; arguments as of `archive_of`."""
    archive = archive_of(java, jars, more)
    for other in jars.parent.glob(f"wallaroo-{_place_of(java)}-*.jsa"):
        if other not in {archive, _base_of(archive)}:
            other.unlink()


def sharing_options(java: str, jars: Path, more: Sequence[Path]) -> list[str]:
    """Return the options with which *java* uses the archive; empty if it does not exist."""
    archive = archive_of(java, jars, more)
    if not archive.exists():
        return []
    base = _base_of(archive)
    files = f"{base}:{archive}" if base.exists() else str(archive)
    return [f"-XX:SharedArchiveFile={files}", *_QUIET]


def recording_options(java: str, archive: Path, file: Path) -> list[str]:
    """Return the options with which *java* writes what will be *archive* to *file*.

    Raises:
        RuntimeFailure: This Java cannot create archives.
    """
    options = [f"-XX:ArchiveClassesAtExit={file}", *_QUIET]
    if (home_of(java) / "lib" / "server" / "classes.jsa").exists():
        return options
    # small runtimes in packages lack the archive of Java's own classes
    base, dumped = _base_of(archive), file.with_suffix(".base")
    command = [java, "-XX:+UseSerialGC", "-Xshare:dump", f"-XX:SharedArchiveFile={dumped}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode or not dumped.exists():
        msg = f"{java} cannot create an archive of its classes: {result.stdout.strip()[-300:]}"
        raise RuntimeFailure(msg)
    dumped.replace(base)  # its final path, to which the upper archive refers
    return [f"-XX:SharedArchiveFile={base}", *options]


def _place_of(java: str) -> str:
    return hashlib.sha256(os.path.realpath(java).encode()).hexdigest()[:8]


def _base_of(archive: Path) -> Path:
    return archive.with_suffix(".base.jsa")
