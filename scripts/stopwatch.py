"""Measures the first hour: from a fresh clone to a first output, and from an edit to its effect.

    python3 scripts/stopwatch.py          # clones this repository, and sets the clone up
    python3 scripts/stopwatch.py --here   # uses the environment of this checkout

It types the commands of the tutorial, and needs what they need: Linux, git, make, Python 3.11 to
3.14, and for the clone the network. Nothing is left behind.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_S = 120.0
"""Seconds that any step of a running application may take."""
EDITS = 3
SECOND_OUTPUT = "{total.name}: {total.amount}"
"""What the encoder of the new application writes, which the edits change."""


class Stopwatch:
    """Times steps, and prints each as it ends."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time the block."""
        began = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - began
        print(f"{self.seconds[name]:8.1f} s  {name}", flush=True)


class Receiver:
    """Takes what the application sends."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.getsockname())
        self._received = b""
        self._changed = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def wait_for(self, text: bytes) -> None:
        """Wait until *text* has come."""
        with self._changed:
            if not self._changed.wait_for(lambda: text in self._received, PATIENCE_S):
                sys.exit(f"{text!r} did not come in {PATIENCE_S:.0f} s")

    def _run(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            while piece := connection.recv(1 << 16):
                with self._changed:
                    self._received += piece
                    self._changed.notify_all()


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--here", action="store_true", help="use this checkout's environment")
    here = parser.parse_args().here
    print(machine())
    watch = Stopwatch()
    with tempfile.TemporaryDirectory(prefix="stopwatch-") as scratch:
        clone = ROOT
        if not here:
            clone = Path(scratch, "wallaroo")
            with watch.step("git clone"):
                call(["git", "clone", "--quiet", str(ROOT), str(clone)], Path(scratch))
            with watch.step("make setup"):
                call(["make", "setup"], clone)
        wallaroo = str(clone / ".venv" / "bin" / "wallaroo")
        with watch.step("wallaroo new"):
            call([wallaroo, "new", "ratings"], Path(scratch))
        run(watch, wallaroo, Path(scratch, "ratings"))
    total = sum(seconds for name, seconds in watch.seconds.items() if not name.startswith("edit"))
    edits = sorted(seconds for name, seconds in watch.seconds.items() if name.startswith("edit"))
    print(f"{total:8.1f} s  until the first output of one's own application")
    print(f"{edits[len(edits) // 2]:8.1f} s  from an edit to its output (median of {len(edits)})")
    print(machine())


def run(watch: Stopwatch, wallaroo: str, directory: Path) -> None:
    """Run the application in *directory*, and edit it while it runs."""
    receiver, port = Receiver(), free_port()
    command = [wallaroo, "run", ".", "--in", f"127.0.0.1:{port}", "--out", receiver.address]
    command += ["--ui", f"127.0.0.1:{free_port()}", "--reload"]
    sending = threading.Event()
    with watch.step("wallaroo run, to the first output"):
        process = subprocess.Popen(command, cwd=directory, stderr=subprocess.DEVNULL)
        thread = threading.Thread(target=send, args=(port, sending.is_set), daemon=True)
        thread.start()
        receiver.wait_for(b"apples: 3\n")
    try:
        file = directory / "application.py"
        text = file.read_text()
        for number in range(1, EDITS + 1):
            with watch.step(f"edit {number}, to its output"):
                file.write_text(text.replace(SECOND_OUTPUT, f"edit {number} of {SECOND_OUTPUT}"))
                receiver.wait_for(f"edit {number} of apples".encode())
            time.sleep(2)  # as a person would
    finally:
        sending.set()
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)


def send(port: int, ends: Callable[[], bool]) -> None:
    """Send the same message again and again, as soon as somebody listens."""
    payload = b"apples 3"
    connection: socket.socket | None = None
    while not ends():
        try:
            if connection is None:
                connection = socket.create_connection(("127.0.0.1", port))
            connection.sendall(len(payload).to_bytes(4, "big") + payload)
        except OSError:
            connection = None
        time.sleep(0.02)


def call(command: list[str], directory: Path) -> None:
    """Run *command* to its end."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def machine() -> str:
    """What it is measured on, and how busy that is."""
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{os.cpu_count()} cores, {pages / 2**30:.0f} GiB, {platform.machine()}, "
        f"Python {platform.python_version()}, load {load}"
    )


if __name__ == "__main__":
    main()
