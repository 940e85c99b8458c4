"""What several tests share: places in the repository, and waiting for a condition."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import HTTPServer
from pathlib import Path
from typing import TypeVar

from wallaroo.model.endpoints import Source
from wallaroo.wire.framing import Framing

ROOT = Path(__file__).resolve().parents[1]
WORD_COUNT = ROOT / "apps" / "word_count"
MARKET_SPREAD = ROOT / "apps" / "market_spread"
COUNTING = ROOT / "tests" / "applications" / "counting.py"
MISBEHAVING = ROOT / "tests" / "applications" / "misbehaving.py"
ASKING = ROOT / "tests" / "applications" / "asking.py"
KILLING = ROOT / "tests" / "applications" / "killing.py"
LARGE = ROOT / "tests" / "applications" / "large.py"
MYPY_CACHES = Path.home() / ".cache" / "wallaroo-tests" / "mypy"
"""What mypy keeps from one run of the tests to the next, in a directory for each set of options."""

PATIENCE_S = 150.0
"""Far more than anything here takes: it ends a test that would wait for ever."""
_PAUSES_S = 0.002, 0.25
_Found = TypeVar("_Found")


def framing_of(source: Source) -> Framing:
    """The framing of a source whose messages lie in the journal as frames."""
    assert isinstance(source.framing, Framing)
    return source.framing


def free_address(host: str = "127.0.0.1") -> str:
    """`HOST:PORT` of a port that nobody listens on, for a process that is told where to."""
    with socket.create_server((host, 0)) as chosen:
        return f"{host}:{chosen.getsockname()[1]}"


def processes_below(root: int) -> dict[int, str]:
    """The processes that *root* started, and those that these did: command lines by number."""
    listing = subprocess.run(
        ["ps", "-ewwo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    children: dict[int, list[tuple[int, str]]] = {}
    for line in listing.splitlines():
        number, parent, command = line.split(None, 2)
        children.setdefault(int(parent), []).append((int(number), command))
    found: dict[int, str] = {}
    below = [root]
    while below:
        for pid, command in children.get(below.pop(), []):
            below.append(pid)
            found[pid] = command
    return found


@contextlib.contextmanager
def serving(server: HTTPServer) -> Iterator[str]:
    """Let *server* answer in a thread of its own; yields its host and port."""
    with server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def wait_until(
    condition: Callable[[], _Found | None],
    what: str = "the condition",
    patience_s: float = PATIENCE_S,
    pauses_s: tuple[float, float] = _PAUSES_S,
) -> _Found:
    """Look at *condition* until it holds, but not most of the time, even if a look takes long.

    Args:
        condition: What is called until it returns something true.
        what: What is waited for.
        patience_s: Seconds after which the test fails.
        pauses_s: The shortest and the longest pause between looks, in seconds.

    Returns:
        What *condition* has returned last.
    """
    shortest_s, longest_s = pauses_s
    give_up = time.monotonic() + patience_s
    while True:
        begun = time.monotonic()
        if found := condition():
            return found
        ended = time.monotonic()
        assert ended < give_up, f"{what} did not come in {patience_s:.0f} s"
        time.sleep(min(max(shortest_s, 4 * (ended - begun)), longest_s))


def unpack(archive: Path, directory: Path) -> Path:
    """Unpack a tar archive, without what leads out of *directory*; returns the directory.

    The filter is an argument only from Python 3.11.4 on.
    """
    with tarfile.open(archive) as opened:
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(directory)
    return directory
