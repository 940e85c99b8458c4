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

from tests.gateway.harness import U32, messages, outputs
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.dataflow.records import JOURNAL, Tally
from wallaroo.engine.gateway_api import StateChange
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.internal_api.client import GatewayClient

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
        self.location = f"grpc+unix://{directory}/gateway.sock"

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
            *("--child", "--state-dir", str(self._directory / "state"), "--listen", self.location),
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
            client = GatewayClient(self.location)
            try:
                yield client, gateway
            finally:
                gateway.kill()
                client.close()


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
        end = client.latest({JOURNAL: 0}, 1 << 30, 1 << 30, 0.0).end[JOURNAL]
        read: tuple[list[bytes], list[bytes]] = ([], [])
        for block in client.read(messages(0, end)):
            for chunk in block:
                read[chunk.source].extend(U32.split(chunk.data))
        accepted = [source.accepted for source in client.status().sources]
    numbers, lines = read
    assert [len(numbers), len(lines)] == accepted
    assert [pickle.loads(number) for number in numbers] == list(range(len(numbers)))
    assert lines == [b"%d" % line for line in range(30_000)]


def test_what_is_written_is_there_once_through_any_number_of_kills(killed: Killed) -> None:
    due = 0
    for turn in range(6):
        with killed.running() as client:
            for batch in range(5):
                made = outputs(*[b"%d" % number for number in range(due, due + 50)])
                token = f"{turn} {batch}"
                epoch = 5 * turn + batch
                client.stage("run", epoch, token, [made], Tally())
                client.publish("run", epoch, [token], {JOURNAL: 0})
                due += 50
    with killed.running() as client:
        wait_until(lambda: not client.status().undelivered, "the delivery of everything")
        assert client.status().delivered == due
    assert killed.out.read_text().splitlines() == [str(number) for number in range(due)]


def epochs_of(client: GatewayClient) -> list[bytes]:
    """The changes of state that the gateway has published."""
    return [change.change.change for block in client.changes("run", -1) for change in block]


def stage(client: GatewayClient, epoch: int) -> None:
    """Stage an output and a change of state for *epoch*."""
    number = b"%d" % epoch
    changes = [StateChange("state", 0, number)]
    client.stage("run", epoch, f"token {epoch}", [outputs(number)], Tally(), changes)


@pytest.mark.parametrize("place", ["outbox-before-publish", "outbox-after-publish"])
def test_outputs_and_changes_of_state_are_published_together_or_not_at_all(
    killed: Killed, place: str
) -> None:
    with killed.running() as client:
        stage(client, 0)  # and the gateway is killed between this and the publication
    with killed.started() as (client, gateway):
        assert epochs_of(client) == []
        client.publish("run", 0, ["token 0"], {JOURNAL: 0})
        stage(client, 1)
        (killed.faults / place).touch()
        impatient = GatewayClient(killed.location, patience_s=0.0)
        with pytest.raises(RuntimeFailure):
            impatient.publish("run", 1, ["token 1"], {JOURNAL: 0})
        impatient.close()
        assert gateway.wait(PATIENCE_S) != 0
    with killed.running() as client:
        published = [b"0", b"1"] if place == "outbox-after-publish" else [b"0"]
        assert epochs_of(client) == published
        assert client.status().published == len(published)
        client.publish("run", 1, ["token 1"], {JOURNAL: 0})
        assert epochs_of(client) == [b"0", b"1"]
        assert client.status().published == 2


def test_a_gateway_that_is_stopped_does_not_wait_for_whoever_reads_from_it(killed: Killed) -> None:
    """A task reads while it works, perhaps for a minute; senders would be refused meanwhile."""
    lines = [f"{line:0>999}" for line in range(40_000)]
    killed.lines.write_text("".join(f"{line}\n" for line in lines))
    with killed.started() as (client, gateway):
        assert client.wait_until_accepted("Lines", len(lines), PATIENCE_S)
        end = client.latest({JOURNAL: 0}, 1 << 30, 1 << 30, 0.0).end[JOURNAL]
        blocks = client.read(messages(0, end))
        read = [next(blocks)]
        gateway.terminate()
        assert gateway.wait(PATIENCE_S) == 0
        with killed.running():
            read += blocks
    found = [
        message.decode()
        for block in read
        for chunk in block
        if chunk.source == 1
        for message in U32.split(chunk.data)
    ]
    assert found == lines[: len(found)]
    assert sum(chunk.messages for block in read for chunk in block) == end
