"""versitygw, an S3 server with atomic conditional writes, built once in a cache of the user."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
from pathlib import Path

from tests.helpers import free_address, wait_until

_MODULE, _VERSION = "github.com/versity/versitygw/cmd/versitygw", "v1.8.0"
_CACHE = Path.home() / ".cache" / "wallaroo-tests" / "versitygw"
_BUILD_S = 200.0
BUCKET = "states"
KEY, SECRET = "tests", "not-a-secret-at-all"


class NotAvailable(Exception):
    """The server cannot be had here, and why."""


def binary() -> Path:
    """The server, which is built if it is not in the cache.

    Raises:
        NotAvailable: It cannot be built.
    """
    built = _CACHE / _VERSION / "versitygw"
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process of the tests may build it
        if not built.exists():
            _build(built)
    return built


def _build(target: Path) -> None:
    if (go := shutil.which("go")) is None:
        msg = "versitygw cannot be built: go is not installed"
        raise NotAvailable(msg)
    made = _CACHE / "made"
    environment = {**os.environ, "GOBIN": str(made)}
    try:
        subprocess.run(
            [go, "install", f"{_MODULE}@{_VERSION}"],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=_BUILD_S,
        )
    except subprocess.SubprocessError as error:
        told = str(getattr(error, "stderr", "") or error).strip().splitlines()
        msg = f"versitygw cannot be built: {told[-1] if told else error}"
        raise NotAvailable(msg) from error
    target.parent.mkdir(parents=True, exist_ok=True)
    (made / "versitygw").rename(target)


class Server:
    """A running server with one empty bucket.

    Args:
        directory: Where it keeps objects.
        host: Address of this machine at which it listens.
    """

    def __init__(self, directory: Path, host: str = "127.0.0.1") -> None:
        (directory / BUCKET).mkdir(parents=True)
        self._directory = directory
        self.address = free_address(host)
        environment = {**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        self._process = subprocess.Popen(
            [binary(), "--port", self.address, "--quiet", "posix", str(directory)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._listens, "the server")

    def has(self, name: str) -> bool:
        """Whether there is an object called *name*."""
        return self.file(name).exists()

    def file(self, name: str) -> Path:
        """The file in which it keeps the object called *name*."""
        return self._directory / BUCKET / name

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    def _listens(self) -> bool:
        assert self._process.poll() is None
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host, int(port))).close()
        except OSError:
            return False
        return True


if __name__ == "__main__":  # where there is a network
    binary()
