"""A gateway that is killed again and again reads and writes everything once."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.harness import U32, outputs
from tests.gateway.stand_in import RUN, StandIn, journal_of
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.consistency.agreement import OUTBOX
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.outbox.published import published_changes

APP = """
import pathlib
import wallaroo

class Numbers:
    def initial_value(self):
        return 0

    def apply(self, previous):
        return previous + 1

def application_setup(args):
    out, lines = pathlib.Path(args[0]), pathlib.Path(args[1])
    sink = wallaroo.FileSinkConfig(out, wallaroo.encoder(str), framing="lines")
    builder = wallaroo.ApplicationBuilder("kills")
    builder.new_pipeline("Numbers", wallaroo.GenSourceConfig(Numbers())).to_sink(sink)
    source = wallaroo.FileSourceConfig(lines, bytes.decode, framing="lines", follow=True)
    builder.new_pipeline("Lines", source).done()
    return builder.build()
"""


class Killed:
    """An application's gateway, as a process that is killed and started again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (directory / "app.py").write_text(APP)
        self.out, self.lines = directory / "out.txt", directory / "lines.txt"
        self.faults = directory / "faults"
        self.faults.mkdir()
        self.state = directory / "state"
        self.location = f"unix:{directory}/gateway.sock"
        self.engine = StandIn(self.location)

    @contextlib.contextmanager
    def running(self) -> Iterator[GatewayClient]:
        """A gateway, which is killed at the end."""
        with self.started() as (client, _):
            yield client

    @contextlib.contextmanager
    def started(self) -> Iterator[tuple[GatewayClient, subprocess.Popen[bytes]]]:
        """The same, with its process."""
        command = [
            *(sys.executable, "-m", "wallaroo", "gateway", str(self._directory / "app.py")),
            *("--child", "--state-dir", str(self.state), "--listen", self.location),
            *("--", str(self.out), str(self.lines)),
        ]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "WALLAROO_FAULTS": str(self.faults)},
        ) as gateway:
            assert gateway.stdout is not None
            assert b"sources" in gateway.stdout.readline()
            try:
                yield GatewayClient(self.location), gateway
            finally:
                gateway.kill()
                self.engine.close()


@pytest.fixture
def killed() -> Iterator[Killed]:
    with tempfile.TemporaryDirectory() as directory:  # short, as the name of a Unix socket must be
        yield Killed(Path(directory))


def test_what_is_read_comes_once_and_in_order_through_any_number_of_kills(killed: Killed) -> None:
    killed.lines.write_text("".join(f"{line}\n" for line in range(30_000)))
    for turn in range(1, 7):
        with killed.running() as client:
            assert client.wait_until_accepted("Numbers", turn * 3_000, PATIENCE_S)
    with killed.running() as client:
        assert client.wait_until_accepted("Lines", 30_000, PATIENCE_S)
        client.stop_accepting()
        read: tuple[list[bytes], list[bytes]] = ([], [])
        for chunk in journal_of(killed.state):
            read[chunk.source].extend(U32.split(chunk.data))
        accepted = [source.accepted for source in client.status().sources]
    numbers, lines = read
    assert [len(numbers), len(lines)] == accepted
    assert [pickle.loads(number) for number in numbers] == list(range(len(numbers)))
    assert lines == [b"%d" % line for line in range(30_000)]


def test_what_is_written_is_there_once_through_any_number_of_kills(killed: Killed) -> None:
    due = 0
    for _ in range(6):
        with killed.running():
            for _ in range(5):
                killed.engine.publish(outputs(*[b"%d" % number for number in range(due, due + 50)]))
                due += 50
    with killed.running() as client:
        wait_until(lambda: not client.status().undelivered, "the delivery of everything")
        assert client.status().delivered == due
    assert killed.out.read_text().splitlines() == [str(number) for number in range(due)]


def changes_in(state: Path) -> list[bytes]:
    """The changes of state that the outbox has."""
    return published_changes(state / OUTBOX, RUN, 0) or []


@pytest.mark.parametrize("place", ["outbox-before-publish", "outbox-after-publish"])
def test_outputs_and_changes_of_state_are_published_together_or_not_at_all(
    killed: Killed, place: str
) -> None:
    with killed.running():
        killed.engine.publish(outputs(b"0"), changes=b"0")
    assert changes_in(killed.state) == [b"0"]
    with killed.started() as (_, gateway):
        (killed.faults / place).touch()
        with pytest.raises(RuntimeFailure):
            killed.engine.publish(outputs(b"1"), changes=b"1", patient=False)
        assert gateway.wait(PATIENCE_S) != 0
    published = [b"0", b"1"] if place == "outbox-after-publish" else [b"0"]
    assert changes_in(killed.state) == published
    with killed.running() as client:
        assert client.status().published == len(published)
        killed.engine.publish(outputs(b"2"), changes=b"2")
        assert client.status().published == 3
    assert changes_in(killed.state) == [b"0", b"1", b"2"]
