"""A gateway that is killed again and again reads and writes everything once."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.harness import U32, outputs
from tests.gateway.stand_in import RUN, StandIn, journal_of
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.reading import published_changes

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

QUIET = APP.replace(
    "wallaroo.GenSourceConfig(Numbers())",
    'wallaroo.FileSourceConfig(out.with_name("none"), bytes.decode, framing="lines", follow=True)',
)
"""The same, whose sources have nothing."""


LINES = 10_000


class Killed:
    """An application's gateway, as a process that is killed and started again."""

    def __init__(self, directory: Path, app: str = APP) -> None:
        self._directory = directory
        (directory / "app.py").write_text(app)
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


@pytest.fixture
def quiet() -> Iterator[Killed]:
    with tempfile.TemporaryDirectory() as directory:
        yield Killed(Path(directory), QUIET)


def test_what_is_read_comes_once_and_in_order_through_any_number_of_kills(killed: Killed) -> None:
    killed.lines.write_text("".join(f"{line}\n" for line in range(LINES)))
    for turn in range(1, 7):
        with killed.running() as client:
            assert client.wait_until_accepted("Numbers", turn * 1_000, PATIENCE_S)
    with killed.running() as client:
        assert client.wait_until_accepted("Lines", LINES, PATIENCE_S)
        client.stop_accepting()
        read: tuple[list[bytes], list[bytes]] = ([], [])
        for chunk in journal_of(killed.state):
            read[chunk.source].extend(U32.split(chunk.data))
        accepted = [source.accepted for source in client.status().sources]
    numbers, lines = read
    assert [len(numbers), len(lines)] == accepted
    assert [pickle.loads(number) for number in numbers] == list(range(len(numbers)))
    assert lines == [b"%d" % line for line in range(LINES)]


def test_what_is_written_is_there_once_through_any_number_of_kills(quiet: Killed) -> None:
    due = 0
    for _ in range(6):
        with quiet.running():
            for _ in range(5):
                quiet.engine.publish(outputs(*[b"%d" % number for number in range(due, due + 50)]))
                due += 50
    with quiet.running() as client:
        wait_until(lambda: not client.status().undelivered, "the delivery of everything")
        assert client.status().delivered == due
    assert quiet.out.read_text().splitlines() == [str(number) for number in range(due)]


def changes_in(state: Path) -> list[bytes]:
    """The changes of state that the log has."""
    return published_changes(state / LOG, RUN, 0) or []


@pytest.mark.parametrize(
    ("place", "is_published"),
    [
        ("chunks-before-publish", False),
        ("log-before-write", False),
        ("log-after-write", True),  # the machine has not stopped
        ("log-after-sync", True),
        ("outbox-after-publish", True),
    ],
)
def test_outputs_and_changes_of_state_are_published_together_or_not_at_all(
    quiet: Killed, place: str, is_published: bool
) -> None:
    with quiet.started() as (client, gateway):
        quiet.engine.publish(outputs(b"0"), changes=b"0")
        wait_until(lambda: not client.status().undelivered, "the delivery")
        assert changes_in(quiet.state) == [b"0"]

        def arm() -> None:
            time.sleep(0.3)  # until the next write is the publication's
            (quiet.faults / place).touch()

        with pytest.raises(RuntimeFailure):
            quiet.engine.publish(outputs(b"1"), changes=b"1", patient=False, before=arm)
        assert gateway.wait(PATIENCE_S) != 0
    published = [b"0", b"1"] if is_published else [b"0"]
    assert changes_in(quiet.state) == published
    with quiet.running() as client:
        assert client.status().published == len(published)
        quiet.engine.publish(outputs(b"2"), changes=b"2")
        assert client.status().published == 3
        wait_until(lambda: not client.status().undelivered, "the delivery")
    assert changes_in(quiet.state) == [b"0", b"1", b"2"]
    assert quiet.out.read_text().splitlines() == ["0", "1", "2"]
