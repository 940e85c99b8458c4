"""Makes the state directory of the present version: `python -m tests.golden.released.make`."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

from tests.golden.make import pack
from tests.golden.released import APP, HERE, NUMBERS, TEXTS, part
from tests.helpers import free_address, processes_below, wait_until
from tests.spark.harness import PATIENCE_S, run, send
from wallaroo import __version__
from wallaroo.run.background_run import BackgroundRun


def main() -> None:
    """Make it, unless it is there."""
    archive = HERE / f"{__version__}.tar.gz"
    if archive.exists():
        print(f"{archive} is there")
        return
    with tempfile.TemporaryDirectory(prefix="released-") as scratch:
        state = Path(scratch, "state")
        leave(state)
        pack(state, archive)
    print(f"made {archive}")


def leave(state: Path) -> None:
    """Leave in *state* what a run leaves that is killed."""
    nowhere = free_address()
    with run(APP, nowhere, state, 2, ["--drain-timeout", "1"]) as running:
        feed(running, 0)
        wait_until_published(running)
        assert running.stop() == 1  # with the outputs
    with run(APP, nowhere, state, 2) as running:
        feed(running, 1)
        wait_until_published(running)
        below = processes_below(running.process.pid)
        (java,) = (pid for pid, command in below.items() if "org.apache.spark" in command)
        os.kill(java, signal.SIGSTOP)
        feed(running, 2)
        for pid in (running.process.pid, *below):
            os.kill(pid, signal.SIGKILL)


def feed(running: BackgroundRun, number: int) -> None:
    """Send the part *number* of all messages, and wait until they are accepted."""
    for source, messages in (("Texts", TEXTS), ("Numbers", NUMBERS)):
        sent = part(messages, number)
        send(running.sources[source], sent)
        running.wait_until_accepted(source, (number + 1) * len(sent))


def wait_until_published(running: BackgroundRun) -> None:
    """Wait until all that is accepted is processed."""
    client = running.client
    assert client is not None
    wait_until(lambda: not client.status().backlog, "the outputs", PATIENCE_S)


if __name__ == "__main__":
    main()
