"""The log channel of the processes of a run on one machine, separate from stdout and stderr.

User code may write to stdout and stderr. `wallaroo run` therefore passes a directory in the
environment of its child processes. The directory contains a socket to which they send log events,
one per datagram, and a named pipe that replaces their file descriptors 1 and 2. Without the
variable, as in a pod, both go to stderr.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

VARIABLE = "WALLAROO_LOG_DIRECTORY"
"""Environment variable that names the directory."""
_EVENTS, _OUTPUT = "events", "output"
_SEND_TIMEOUT_S = 1.0
"""Time to wait for the reader before an event is dropped."""
_MAX_BYTES = 1 << 17
"""Maximum size of a datagram; the default limit of Linux is 200 KiB."""
_SHORT = 4096
"""Maximum length of values, in characters, in events that exceed the size of a datagram."""
_MAX_LAST = 10_000
"""Maximum number of events, and of blocks of output, to read at the end."""
_MAX_LINE_BYTES = 8192
"""Bytes of output without a line feed that count as a line."""
_CREDENTIALS = struct.Struct("=iII")
"""Process, user and group of the sender of a datagram."""

Write = Callable[[str], object]
"""Writes a line, passed without its line feed."""


def write_to_stderr(line: str) -> None:
    """Write *line* to the current stderr of this process."""
    stream = sys.__stderr__
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):  # it has no reader, or its disk is full
            stream.write(line + "\n")
            stream.flush()


_write: Write = write_to_stderr


def write(line: str) -> None:
    """Log *line*, an event as JSON, separately from the output of user code; see `take_over`."""
    _write(line)


def is_read() -> bool:
    """Whether `write` writes to a run that reads it, as a `Channel`."""
    return isinstance(_write, _Sender)


def descriptor() -> int | None:
    """The file descriptor that `write` writes to, if it is one of its own."""
    return _write.fileno() if isinstance(_write, (_Descriptor, _Sender)) else None


def take_over() -> None:
    """Leave file descriptors 1 and 2 of this process to user code; `write` bypasses them."""
    global _write  # noqa: PLW0603
    output = _output()
    if output is None:
        _write = _Descriptor(os.dup(2))
        os.dup2(2, 1)
        return
    _write = _Sender(_sender())
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)


@contextlib.contextmanager
def taken_over() -> Iterator[None]:
    """Within the block, leave file descriptors 1 and 2 to user code; restore both afterwards."""
    saved = os.dup(1), os.dup(2)
    output = _output()
    os.dup2(2 if output is None else output, 1)
    if output is not None:
        os.dup2(output, 2)
        os.close(output)
    try:
        yield
    finally:
        for number, copy in enumerate(saved, 1):
            os.dup2(copy, number)
            os.close(copy)


def _output() -> int | None:
    """Open the pipe that replaces file descriptors 1 and 2; None if there is none."""
    directory = os.environ.get(VARIABLE)
    try:
        return None if directory is None else os.open(Path(directory, _OUTPUT), os.O_WRONLY)
    except OSError:  # a worker on another machine
        return None


def _sender() -> socket.socket:
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.connect(str(Path(os.environ[VARIABLE], _EVENTS)))
    sender.settimeout(_SEND_TIMEOUT_S)
    return sender


class _Descriptor:
    """Writes lines to a file descriptor, without a lock, which might be held during a fork."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def __call__(self, line: str) -> None:
        rest = memoryview(_encoded(line) + b"\n")
        with contextlib.suppress(OSError):  # it has no reader, or its disk is full
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]


class _Sender:
    """Sends lines as datagrams, which do not interleave with those of other processes."""

    def __init__(self, to: socket.socket) -> None:
        self._to = to

    def fileno(self) -> int:
        return self._to.fileno()

    def __call__(self, line: str) -> None:
        data = _encoded(line)
        with contextlib.suppress(OSError):  # the run has ended, or does not read
            self._to.send(data if len(data) <= _MAX_BYTES else _encoded(_shortened(line)))


def _encoded(line: str) -> bytes:
    return line.encode("utf-8", "backslashreplace")


def _shortened(line: str) -> str:
    def short(value: Any) -> Any:
        text = value if isinstance(value, str) else json.dumps(value)
        return value if len(text) <= _SHORT else f"{text[:_SHORT]}…"

    return json.dumps({name: short(value) for name, value in json.loads(line).items()})


class Channel:
    """The reading end, which passes the logs and output of other processes to callbacks.

    Args:
        directory: An empty directory, private to this run, with a short path.
        on_event: Called, in a separate thread, with each event, a line of JSON, and the number of
            the process that sent it, as the kernel knows it.
        on_output: Called likewise with each line that a process writes to file descriptor 1 or 2.
    """

    def __init__(
        self,
        directory: Path,
        on_event: Callable[[str, int], object],
        on_output: Callable[[str], object],
    ) -> None:
        self.environment = {VARIABLE: str(directory)}
        """Environment variables for the processes that log to this channel."""
        self._on_event, self._on_output = on_event, on_output
        self._events = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._events.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._events.bind(str(directory / _EVENTS))
        self._events.setblocking(False)
        os.mkfifo(directory / _OUTPUT, 0o600)
        # also for writing, so that it never reaches its end
        self._output = os.open(directory / _OUTPUT, os.O_RDWR | os.O_NONBLOCK)
        self._rest = b""
        self._stopping, self._stopped = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Process what remains, and stop."""
        self._stopped.close()
        self._thread.join()
        for end in (self._events, self._stopping):
            end.close()
        os.close(self._output)

    def _run(self) -> None:
        poll = select.poll()
        for descriptor in (self._events.fileno(), self._output, self._stopping.fileno()):
            poll.register(descriptor, select.POLLIN)
        last = self._stopping.fileno()
        while not any(ready == last for ready, _ in poll.poll()):
            self._read()
        for _ in range(_MAX_LAST):  # a program that user code started may still be printing
            if not self._read():
                break
        if self._rest:
            self._pass_on(self._on_output, self._rest)

    def _read(self) -> bool:
        """Read available events and output; returns whether there was any."""
        event, output = self._read_event(), self._read_output()
        return event or output

    def _read_event(self) -> bool:
        try:
            line, credentials, _, _ = self._events.recvmsg(
                _MAX_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size)
            )
        except BlockingIOError:
            return False
        sender = 0
        for _, kind, data in credentials:
            if kind == socket.SCM_CREDENTIALS:
                sender, _, _ = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])
        self._pass_on(lambda text: self._on_event(text, sender), line)
        return True

    def _read_output(self) -> bool:
        try:
            piece = os.read(self._output, 1 << 16)
        except BlockingIOError:
            return False
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _MAX_LINE_BYTES:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            if line.strip():
                self._pass_on(self._on_output, line)
        return True

    def _pass_on(self, callback: Callable[[str], object], line: bytes) -> None:
        with contextlib.suppress(Exception):  # otherwise the other processes would block forever
            callback(line.decode("utf-8", "replace"))
