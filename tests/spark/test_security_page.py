"""What SECURITY.md says of a run: what listens, who may use Spark's ports, the modes of files."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import struct
import tempfile
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from tests.helpers import ROOT, processes_below, wait_until
from tests.spark.harness import APPS, PATIENCE_S, Receiver, run, send
from wallaroo.engine.realtime.shared_files import directory_of
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"
PAGE = (ROOT / "SECURITY.md").read_text()
REFUSED = (b"Unknown challenge message", b"Authentication error")
"""What Spark's and Py4J's ports answer to a peer that does not begin with a proof of a secret."""
_ROW = re.compile(r"^\| `(\S+)` \|.*\| (0\d{3}) \| (0\d{3}|–) \| (0\d{3}|–) \|$", re.MULTILINE)
_KINDS = {stat.S_IFDIR: 0, stat.S_IFREG: 1, stat.S_IFIFO: 1, stat.S_IFSOCK: 2}
"""Which column of the table of files has the mode of a kind of file."""


class Counting(NamedTuple):
    """A run of Word Count that was started with a umask of 0."""

    running: BackgroundRun
    receiver: Receiver
    state: Path
    temporary: Path
    """Its directory for temporary files, with a path that is short enough for sockets."""


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counting]:
    state = tmp_path_factory.mktemp("run") / "state"
    with contextlib.ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="modes-", dir="/tmp"))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("TMPDIR", temporary)
        stack.callback(os.umask, os.umask(0))
        receiver = stack.enter_context(Receiver("lines"))
        running = stack.enter_context(run(APPS / "word_count", receiver, state))
        yield Counting(running, receiver, state, Path(temporary))


def rows(mode: str) -> list[list[str]]:
    """The cells of each row of the table of ports behind the line that begins with *mode*."""
    behind = PAGE.split("\n## Ports\n")[1].split(f"\n{mode}")[1]
    table = behind.split("\n\n")[1]
    return [re.split(r" *\| *", line.strip("| ")) for line in table.splitlines()[2:]]


def documented_ports() -> Counter[str]:
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


def test_what_listens_is_in_the_table_and_lets_no_stranger_in(counting: Counting) -> None:
    running, receiver = counting.running, counting.receiver
    send(running.sources[SOURCE], [b"one two"])
    receiver.wait_for(2)
    # the shuffle's port is another one in each epoch
    expected = documented_ports()
    wait_until(lambda: counted(running) == expected)
    assert {address for _, address, _ in listening(running)} == {"127.0.0.1"}
    wait_until(lambda: refusing(running) == expected["java"])
    for path in unix_sockets(running):
        assert any(place.stat().st_mode & 0o077 == 0 for place in path.parents), path
    send(running.sources[SOURCE], [b"one two"])  # strangers have not disturbed it
    receiver.wait_for(4)


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


def documented_modes() -> dict[str, tuple[str, str, str]]:
    """The modes of directories, files and sockets that the documentation names, by pattern."""
    rows = {row[0]: row[1:] for row in _ROW.findall(PAGE)}
    assert len(rows) >= 3
    return rows


def found(root: Path) -> dict[Path, os.stat_result]:
    """Everything below *root*, and itself."""
    there: dict[Path, os.stat_result] = {}
    for directory, directories, files in os.walk(root):
        for path in (Path(directory), *(Path(directory, n) for n in (*directories, *files))):
            try:
                there[path] = path.lstat()
            except FileNotFoundError:  # it was temporary
                continue
    return there


def test_only_the_user_can_open_what_a_run_creates(counting: Counting) -> None:
    """Ends the run, for what it leaves behind."""
    running, receiver, state, temporary = counting
    memory = directory_of(state / "checkpoint")
    places = {state: "STATE_DIR", temporary: "TMPDIR", memory: "/dev/shm/wallaroo-UID"}
    seen: dict[str, int] = {}

    def look() -> None:
        for root, name in places.items():
            for path, status in found(root).items():
                if path != temporary:
                    seen[str(path).replace(str(root), name, 1)] = status.st_mode

    look()
    before = len(receiver.messages)
    send(running.sources[SOURCE], [b"one two %d" % n for n in range(5000)])
    receiver.wait_for(before + 15_000)
    look()
    assert running.stop() == 0
    look()
    warnings = [event for event in running.events if "open to other users" in str(event["event"])]
    rows = documented_modes()
    wrong, used = [], set()
    for path, mode in seen.items():
        pattern = next((p for p in rows if fnmatchcase(f"{path}/", p)), None)
        told = None if pattern is None else rows[pattern][_KINDS[stat.S_IFMT(mode)]]
        used.add(pattern)
        if "/wallaroo-java-" in path and path.endswith(".so") and stat.S_IMODE(mode) == 0o700:
            continue  # as the page says below the table
        if told != f"{stat.S_IMODE(mode):04o}":
            wrong.append(f"{path} has {stat.S_IMODE(mode):04o}, documented is {told}")
    assert not wrong, "\n".join(wrong)
    assert {"STATE_DIR/**", "TMPDIR/wallaroo-*/**"} <= used
    assert not warnings
