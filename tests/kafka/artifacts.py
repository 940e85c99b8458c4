"""Apache Kafka from Maven Central, by pinned coordinates and checksums, in a cache of the user."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

_HERE = Path(__file__).parent
_CACHE = Path.home() / ".cache" / "wallaroo-tests" / "kafka"
_FETCH_S = 150.0


class NotAvailable(Exception):
    """Kafka cannot be had here, and why."""


def jars() -> Path:
    """The folder with Kafka's jars, which is fetched if it is not in the cache.

    Raises:
        NotAvailable: They cannot be fetched.
        ValueError: What was fetched is not what `checksums.txt` has.
    """
    checksums = (_HERE / "checksums.txt").read_text()
    wanted = {name: digest for digest, name in map(str.split, checksums.splitlines())}
    folder = _CACHE / hashlib.sha256(checksums.encode()).hexdigest()[:16]
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process of the tests may fetch them
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=_CACHE) as made:
                fetched = Path(made, "jars")
                _fetch(fetched)
                _check(fetched, wanted)
                fetched.rename(folder)
    return folder


def _fetch(into: Path) -> None:
    if (maven := shutil.which("mvn")) is None:
        msg = "Apache Kafka cannot be fetched: mvn is not installed"
        raise NotAvailable(msg)
    command = [
        *(maven, "-q", "-B", "-f", str(_HERE / "pom.xml"), "dependency:copy-dependencies"),
        *(f"-DoutputDirectory={into}", "-DincludeScope=runtime"),
    ]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_FETCH_S)
    except subprocess.SubprocessError as error:
        told = str(getattr(error, "stdout", "") or error).strip().splitlines()
        msg = f"Apache Kafka cannot be fetched: {told[0] if told else error}"
        raise NotAvailable(msg) from error


def _check(folder: Path, wanted: dict[str, str]) -> None:
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
    differing = sorted(name for name, _ in found.items() ^ wanted.items())
    if differing:
        msg = f"these jars of Kafka are not those of tests/kafka/checksums.txt: {differing}"
        raise ValueError(msg)
