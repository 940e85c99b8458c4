"""Java's archive of loaded classes, which a virtual machine maps instead of loading them anew.

Spark loads some fifteen thousand classes before its first batch, a third of its start. The archive
belongs to one Java and one set of jars: it lies beside those, is found by digests of Java's place
and of what is there, and a Java that does not like it runs without (`-Xshare:auto`). Source: JEP
350, dynamic archives.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from wallaroo.errors import RuntimeFailure

_QUIET = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def home_of(java: str) -> Path:
    """Directory of the Java that the program *java* belongs to."""
    return Path(os.path.realpath(java)).parents[1]


def archive_of(java: str, jars: Path) -> Path:
    """Where the archive of *java* and *jars* is, if it has been made."""
    content = hashlib.sha256()
    classes = home_of(java) / "lib" / "modules"  # Java's own
    for file in (classes, *sorted(jars.glob("*.jar"))):
        if file.exists():
            told = file.stat()
            content.update(f"{file} {told.st_size} {told.st_mtime_ns}\n".encode())
    return jars.parent / f"wallaroo-{_place_of(java)}-{content.hexdigest()[:16]}.jsa"


def remove_outdated(java: str, jars: Path) -> None:
    """Remove archives of what was where *java* and *jars* are, before these were."""
    archive = archive_of(java, jars)
    for other in jars.parent.glob(f"wallaroo-{_place_of(java)}-*.jsa"):
        if other not in {archive, _base_of(archive)}:
            other.unlink()


def sharing_options(java: str, jars: Path) -> list[str]:
    """What to start *java* with, so that it uses the archive; nothing if there is none."""
    archive = archive_of(java, jars)
    if not archive.exists():
        return []
    base = _base_of(archive)
    files = f"{base}:{archive}" if base.exists() else str(archive)
    return [f"-XX:SharedArchiveFile={files}", *_QUIET]


def recording_options(java: str, jars: Path, made: Path) -> list[str]:
    """What to start *java* with, so that it leaves an archive of its classes behind in *made*.

    Raises:
        RuntimeFailure: This Java cannot.
    """
    options = [f"-XX:ArchiveClassesAtExit={made}", *_QUIET]
    if (home_of(java) / "lib" / "server" / "classes.jsa").exists():
        return options
    # the small runtimes of packages come without an archive of Java's own classes
    base, dumped = _base_of(archive_of(java, jars)), made.with_suffix(".base")
    command = [java, "-XX:+UseSerialGC", "-Xshare:dump", f"-XX:SharedArchiveFile={dumped}"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.returncode or not dumped.exists():
        msg = f"{java} makes no archive of its classes: {told.stdout.strip()[-300:]}"
        raise RuntimeFailure(msg)
    dumped.replace(base)  # where it stays: the archive above it names it
    return [f"-XX:SharedArchiveFile={base}", *options]


def _place_of(java: str) -> str:
    return hashlib.sha256(os.path.realpath(java).encode()).hexdigest()[:8]


def _base_of(archive: Path) -> Path:
    return archive.with_suffix(".base.jsa")
