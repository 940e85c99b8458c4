"""What listens in a run, compared with the table in SECURITY.md, and whom Spark's ports let in."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.helpers import processes_below, wait_until
from tests.spark.harness import APPS, PATIENCE_S, Receiver, run, send
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"
SECURITY = Path(__file__).parents[2] / "SECURITY.md"
REFUSED = (b"Unknown challenge message", b"Authentication error")
"""What Spark's and Py4J's ports answer to a peer that does not begin with a proof of a secret."""


def rows(mode: str) -> list[list[str]]:
    """The cells of each row of the table of ports behind the line that begins with *mode*."""
    behind = SECURITY.read_text().split("\n## Ports\n")[1].split(f"\n{mode}")[1]
    table = behind.split("\n\n")[1]
    return [re.split(r" *\| *", line.strip("| ")) for line in table.splitlines()[2:]]


def documented() -> Counter[str]:
    """How many TCP ports each process has, without `--gateway` and sinks of events."""
    return Counter(
        process
        for port, process, address, *_ in rows("`wallaroo run`")
        if "Unix" not in address and "SSESinkConfig" not in port
    )


def connections(pid: int, kind: str) -> list[Any]:
    """What process *pid* has open, and nothing once it has ended: workers come and go."""
    try:
        return psutil.Process(pid).net_connections(kind)
    except psutil.NoSuchProcess:
        return []


def listening(running: BackgroundRun) -> Iterator[tuple[str, str, int]]:
    """Kind of process, address and port of what listens in *running*."""
    root = running.process.pid
    for pid, command in (processes_below(root) | {root: " wallaroo run "}).items():
        kinds = [kind for kind in ("gateway", "java", "run") if re.search(rf"\b{kind}\b", command)]
        for connection in connections(pid, "tcp"):
            if connection.status == psutil.CONN_LISTEN:
                address = str(connection.laddr.ip).removeprefix("::ffff:")
                yield kinds[0] if kinds else command, address, connection.laddr.port


def answer_to_a_stranger(port: int) -> bytes:
    """What a port of Java answers to a call of Spark's protocol, and one of Py4J's."""
    body = b"A\nguess\ne\n" * 2
    call = struct.pack(">bqi", 3, 1, len(body)) + body
    answers = b""
    for told in (struct.pack(">q", 8 + len(call)) + call, body):
        with (
            socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection,
            contextlib.suppress(ConnectionResetError),
        ):
            connection.sendall(told)
            while piece := connection.recv(1 << 16):  # until it is closed
                answers += piece
    return answers


def test_what_listens_is_in_the_table_and_lets_no_stranger_in(
    tmp_path: Path,
) -> None:
    with Receiver("lines") as receiver, run(APPS / "word_count", receiver, tmp_path) as running:
        send(running.sources[SOURCE], [b"one two"])
        receiver.wait_for(2)
        # the shuffle's port is another one in each epoch
        expected = documented()
        wait_until(lambda: counted(running) == expected)
        assert {address for _, address, _ in listening(running)} == {"127.0.0.1"}
        wait_until(lambda: refusing(running) == expected["java"])
        for path in unix_sockets(running):
            assert any(place.stat().st_mode & 0o077 == 0 for place in path.parents), path
        send(running.sources[SOURCE], [b"one two"])  # strangers have not disturbed it
        receiver.wait_for(4)
        assert running.stop() == 0


def counted(running: BackgroundRun) -> Counter[str]:
    return Counter(kind for kind, *_ in listening(running))


def refusing(running: BackgroundRun) -> int:
    """How many ports of Java refuse a stranger; each that is there does."""
    count = 0
    for _, _, port in [one for one in listening(running) if one[0] == "java"]:
        with contextlib.suppress(ConnectionRefusedError):  # it has just been closed
            answer = answer_to_a_stranger(port)
            assert any(told in answer for told in REFUSED), answer
            count += 1
    return count


def unix_sockets(running: BackgroundRun) -> Iterator[Path]:
    for pid in [running.process.pid, *processes_below(running.process.pid)]:
        for connection in connections(pid, "unix"):
            path = Path(str(connection.laddr))
            if path.is_absolute() and path.exists():
                yield path
