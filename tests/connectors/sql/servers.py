"""Databases to write to: a PostgreSQL of this machine, in a directory of its own, and SQLite."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.helpers import PATIENCE_S, free_address

USER = "postgres"
"""Who runs PostgreSQL, which refuses to be run by root."""


def binaries() -> Path | None:
    """The folder of PostgreSQL's programs, of the newest version that is installed."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if (on_path := shutil.which("initdb")) is not None:
        found.append(Path(on_path).resolve().parent)
    return max(found, default=None, key=lambda path: path.parts)


class PostgreSQL:
    """A server of PostgreSQL, which may be stopped and started."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self._programs, self._directory = programs, directory
        self._as_user: list[str] = []
        if os.geteuid() == 0:
            user = pwd.getpwnam(USER)
            os.chown(directory, user.pw_uid, user.pw_gid)
            self._as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}"]
            self._as_user += ["--clear-groups"]
        self._data = directory / "data"
        self._port = free_address().rpartition(":")[2]
        self._do("initdb", "--auth=trust", "--no-sync", "--username=app", str(self._data))
        self.url = f"postgresql+psycopg://app@127.0.0.1:{self._port}/postgres"
        self.start()

    def start(self) -> None:
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -k {self._directory}"
        log = str(self._directory / "log")
        self._control("start", "-l", log, "-o", f"{options} -c fsync=off")

    def stop(self) -> None:
        """Kill it, as far as its clients can see."""
        self._control("stop", "-m", "immediate")

    def _control(self, *arguments: str) -> None:
        self._do("pg_ctl", "-D", str(self._data), "-w", *arguments)

    def _do(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [*self._as_user, str(self._programs / program), *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            cwd=self._directory,
            timeout=2 * PATIENCE_S,
        )


@contextlib.contextmanager
def running_postgresql() -> Iterator[PostgreSQL]:
    """A server; skips the test if there can be none."""
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    if os.geteuid() == 0:
        try:
            pwd.getpwnam(USER)
        except KeyError:
            pytest.skip(f"there is no user {USER!r}, and PostgreSQL refuses to be run by root")
    with TemporaryDirectory(prefix="pg") as name:
        server = PostgreSQL(programs, Path(name))
        try:
            yield server
        finally:
            server.stop()
