"""A gateway that is killed again and again reads and writes everything once."""

from __future__ import annotations

import contextlib
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

    @contextlib.contextmanager
    def running(self) -> Iterator[GatewayClient]:
        """A gateway, which is killed at the end."""
        with self.started() as (client, _):
            yield client

    @contextlib.contextmanager
    def started(self) -> Iterator[tuple[GatewayClient, subprocess.Popen[bytes]]]:
        """The same, with its process."""
        location = f"grpc+unix://{self._directory}/gateway.sock"
        command = [
            *(sys.executable, "-m", "wallaroo", "gateway", str(self._directory / "app.py")),
            *("--child", "--state-dir", str(self._directory / "state"), "--listen", location),
            *("--", str(self.out), str(self.lines)),
        ]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as gateway:
            assert gateway.stdout is not None
            assert b"sources" in gateway.stdout.readline()
            client = GatewayClient(location)
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
