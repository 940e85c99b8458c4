"""What one message alone costs a gateway: system calls, and bytes that it writes. No clock."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.harness import U32
from tests.gateway.log_files import places
from tests.helpers import PATIENCE_S, ROOT, wait_until
from wallaroo.gateway.entries import DELIVERED
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.location import chunks_socket
from wallaroo.wire.channel import connect
from wallaroo.wire.chunk_messages import (
    BEGIN,
    DRIVER,
    HELLO,
    READER,
    TASK,
    CheckpointPosition,
    Hello,
    Report,
    pack_json,
    pack_report,
    task_in,
)
from wallaroo.wire.frame_socket import FrameSocket
from wallaroo.wire.records import Outputs, Tally

APP = """
import struct, wallaroo

@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(data: bytes) -> bytes:
    return data

@wallaroo.encoder
def encode(data: bytes) -> bytes:
    return data

def application_setup(args):
    (source,), (sink,) = wallaroo.tcp_parse_input_addrs(args), wallaroo.tcp_parse_output_addrs(args)
    builder = wallaroo.ApplicationBuilder("costs")
    pipeline = builder.new_pipeline("Costs", wallaroo.TCPSourceConfig(*source, decode))
    pipeline.to_sink(wallaroo.TCPSinkConfig(*sink, encode))
    return builder.build()
"""
MESSAGES = 50
SOCKET_CALLS = {"recvfrom", "sendto"}


@contextlib.contextmanager
def gateway(directory: Path, out: int) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A gateway's process, and the port of its source."""
    (directory / "app.py").write_text(APP)
    command = [
        *(sys.executable, "-m", "wallaroo", "gateway", str(directory / "app.py")),
        *("--child", "--state-dir", str(directory / "state")),
        *("--listen", f"unix:{directory}/gateway.sock"),
        *("--", "--in", "127.0.0.1:0", "--out", f"127.0.0.1:{out}"),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield process, int(line.split(b"127.0.0.1:")[1].split(b'"')[0])
        finally:
            process.kill()


class Engine:
    """An engine that gives each message one output."""

    def __init__(self, location: str) -> None:
        claim = GatewayClient(location, patience_s=PATIENCE_S).claim("costs")
        self._sockets: list[FrameSocket] = []
        for role in (DRIVER, READER):
            self._sockets.append(connect(str(chunks_socket(location))))
            self._sockets[-1].send(pack_json(HELLO, Hello(claim, 1, role, 0)))
        self._reader = self._sockets[-1]
        self._reader.send(pack_json(BEGIN, ["run", False, *CheckpointPosition()]))

    def run(self) -> None:
        """Run the next chunk."""
        frame = self._reader.receive()
        assert frame is not None
        assert frame[:1] == TASK
        made = Outputs.of(0, [b"\0\0\0\2ok"])
        self._reader.send(*pack_report(Report(task_in(frame).number, [made], Tally())))

    def close(self) -> None:
        for one in self._sockets:
            one.close()


def written(process: int) -> int:
    """Bytes that a process has written to files."""
    lines = Path(f"/proc/{process}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


@contextlib.contextmanager
def traced(process: int, calls: list[str], scratch: Path) -> Iterator[None]:
    """Append the names of the system calls of a process to *calls*, in order."""
    report = scratch / "calls"
    with subprocess.Popen(
        ["strace", "-f", "-o", str(report), "-p", str(process)], stderr=subprocess.PIPE
    ) as tracer:
        assert tracer.stderr is not None
        while b"attached" not in (line := tracer.stderr.readline()):
            if not line:
                pytest.skip("processes may not be traced here")
        try:
            yield
        finally:
            tracer.send_signal(signal.SIGINT)
    calls += re.findall(r"^\d+ +(\w+)\(", report.read_text(), flags=re.MULTILINE)


def documented() -> Counter[str]:
    """How often each system call comes for one message, as of the documentation."""
    text = (ROOT / "docs/architecture.md").read_text()
    _, _, rest = text.partition("<!-- calls -->\n```text\n")
    return Counter(line.split()[0] for line in rest.partition("```")[0].splitlines())


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_message_alone_costs_few_system_calls_and_few_bytes() -> None:
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as receiver:
        directory = Path(name)
        with gateway(directory, receiver.getsockname()[1]) as (process, port):
            engine = Engine(f"unix:{directory}/gateway.sock")
            out, _ = receiver.accept()
            sender = socket.create_connection(("127.0.0.1", port))
            with contextlib.closing(engine), out, sender:

                def deliveries() -> int:
                    return len(places(directory / "state", DELIVERED))

                def send_one() -> None:
                    before = deliveries()
                    sender.sendall(U32.frame(b"hello"))
                    engine.run()
                    assert out.recv(100)
                    wait_until(lambda: deliveries() > before, "the record of the delivery")

                for _ in range(5):  # what happens once
                    send_one()
                calls: list[str] = []
                before = written(process.pid)
                with traced(process.pid, calls, directory):
                    for _ in range(MESSAGES):
                        send_one()
                size = (written(process.pid) - before) / MESSAGES
    assert size <= 1024
    assert len(calls) / MESSAGES <= 40
    found = {call: count // MESSAGES for call, count in Counter(calls).items()}
    for call, count in documented().items():
        if call in SOCKET_CALLS:  # a sync that a thread waits for wakes the loop by a socket
            assert found[call] >= count
        else:
            assert found[call] == count, call
