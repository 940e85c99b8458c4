"""Outputs on standard output: a line each, once as long as the gateway lives."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import Iterator
from contextlib import closing

import pytest
from structlog.testing import capture_logs

from tests.helpers import wait_until
from wallaroo.connectors.stdout.sink import PrintSink
from wallaroo.system import standard_output


class Pipe:
    """Stands for standard output."""

    def __init__(self, read: int, write: int) -> None:
        self.reading, self.writing = read, write

    def read(self) -> bytes:
        return os.read(self.reading, 65_536)

    def size(self) -> int:
        """Bytes that wait to be read."""
        (size,) = struct.unpack("i", fcntl.ioctl(self.reading, termios.FIONREAD, bytes(4)))
        return int(size)

    def close(self) -> None:
        for end in (self.reading, self.writing):
            if end >= 0:
                os.close(end)


def opened(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> PrintSink:
    monkeypatch.setattr(standard_output, "_kept", pipe.writing)
    sink = PrintSink()
    sink.open("of this state directory")
    return sink


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    with closing(Pipe(*os.pipe())) as made:
        yield made


def test_each_output_is_a_line(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(pipe, monkeypatch).write(5, [b"with its end\n", b"without", b"", "ö\x1b".encode()])
    assert pipe.read() == "with its end\nwithout\n\nö\x1b\n".encode()


def test_what_is_repeated_after_a_failure_is_printed_once(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(pipe, monkeypatch)
    sink.write(0, [b"a", b"b"])
    sink.close()
    sink.open("of this state directory")
    sink.write(1, [b"b", b"c"])
    assert pipe.read() == b"a\nb\nc\n"


def test_a_terminal_gets_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Pipe(*pty.openpty())) as terminal:
        opened(terminal, monkeypatch).write(0, [b"\x1b[2J\xff", "ö".encode()])
        assert terminal.read() == "\\x1b[2J\\xff\r\nö\r\n".encode()


def test_a_pipe_that_another_program_made_nonblocking_is_waited_for(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.set_blocking(pipe.writing, False)
    sink = opened(pipe, monkeypatch)
    ended = os.fork()
    if not ended:
        try:
            os.set_blocking(pipe.writing, False)
            sink.write(0, [b"x" * 1_000_000])
        finally:
            os._exit(0)
    os.close(pipe.writing)
    pipe.writing = -1
    size = 0
    while piece := pipe.read():
        size += len(piece)
    os.waitpid(ended, 0)
    assert size == 1_000_001


def test_a_kill_while_nobody_reads_cuts_no_line(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(pipe, monkeypatch)
    writer = os.fork()
    if not writer:
        try:
            sink.write(0, [b"%d" % number for number in range(100_000)])
        finally:
            os._exit(0)
    wait_until(lambda: pipe.size() > 60_000)  # of 64 KiB
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    os.close(pipe.writing)
    pipe.writing = -1
    printed = b""
    while piece := pipe.read():
        printed += piece
    lines = printed.splitlines(keepends=True)
    assert lines == [b"%d\n" % number for number in range(len(lines))]
    assert lines


def test_outputs_that_nobody_reads_are_discarded(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(pipe, monkeypatch)
    os.close(pipe.reading)
    pipe.reading = -1
    with capture_logs() as told:
        sink.write(0, [b"a"])
        sink.write(1, [b"b"])
    (event,) = told
    assert (event["event"], event["log_level"]) == ("outputs are not printed", "warning")
    assert event["reason"] == "standard output has no reader"
