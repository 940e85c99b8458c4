"""How the processes of a run on one machine log: past stdout and stderr, where user code writes.

`wallaroo run` names a directory in the environment of the processes that it starts. There it reads
a socket, to which they send their log events, one a datagram, and a named pipe, which takes the
place of their file descriptors 1 and 2. Where no directory is named, as in a pod, both go to
stderr.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

VARIABLE = "WALLAROO_LOG_DIRECTORY"
"""Environment variable that names the directory."""
_EVENTS, _OUTPUT = "events", "output"
_SEND_TIMEOUT_S = 1.0
"""Time that an event waits for a reader that reads nothing, before it is lost."""
_MOST_BYTES = 1 << 17
"""Bytes of a datagram: Linux takes 200 KiB unless it is configured otherwise."""
_SHORT = 4096
"""Characters that the values of an event keep that is larger than a datagram."""
_MOST_LAST = 10_000
"""Events, and pieces of output, that are read at the end at most."""
_LONGEST_LINE = 8192
"""Bytes of output without a line feed that count as a line."""

Write = Callable[[str], object]
"""Takes a line, without its line feed."""


def write_to_stderr(line: str) -> None:
    """Write *line* to what is this process's stderr at the moment."""
    stream = sys.__stderr__
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads it, or its disk is full
            stream.write(line + "\n")
            stream.flush()


_write: Write = write_to_stderr


def write(line: str) -> None:
    """Log *line*, an event as JSON, where user code does not write to; see `take_over`."""
    _write(line)


def take_over() -> None:
    """Leave file descriptors 1 and 2 of this process to user code; `write` goes past them then."""
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
    """Inside the block, leave file descriptors 1 and 2 to user code; both are restored then."""
    saved = os.dup(1), os.dup(2)
    output = _output()
    os.dup2(2 if output is None else output, 1)
    if output is not None:
        os.dup2(output, 2)
        os.close(output)
    try:
        yield
    finally:
        for number, own in enumerate(saved, 1):
            os.dup2(own, number)
            os.close(own)


def _output() -> int | None:
    """The pipe that takes the place of descriptors 1 and 2; None where there is none."""
    directory = os.environ.get(VARIABLE)
    try:
        return None if directory is None else os.open(Path(directory, _OUTPUT), os.O_WRONLY)
    except OSError:  # a worker of another machine
        return None


def _sender() -> socket.socket:
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.connect(str(Path(os.environ[VARIABLE], _EVENTS)))
    sender.settimeout(_SEND_TIMEOUT_S)
    return sender


class _Descriptor:
    """Writes lines to a file descriptor; without a lock, which a fork might leave locked."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __call__(self, line: str) -> None:
        rest = memoryview(_encoded(line) + b"\n")
        with contextlib.suppress(OSError):  # nobody reads it, or its disk is full
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]


class _Sender:
    """Sends lines as datagrams, which cannot be mixed up with those of other processes."""

    def __init__(self, to: socket.socket) -> None:
        self._to = to

    def __call__(self, line: str) -> None:
        data = _encoded(line)
        with contextlib.suppress(OSError):  # the run has ended, or reads nothing
            self._to.send(data if len(data) <= _MOST_BYTES else _encoded(_shortened(line)))


def _encoded(line: str) -> bytes:
    return line.encode("utf-8", "backslashreplace")


def _shortened(line: str) -> str:
    def short(value: Any) -> Any:
        text = value if isinstance(value, str) else json.dumps(value)
        return value if len(text) <= _SHORT else f"{text[:_SHORT]}…"

    return json.dumps({name: short(value) for name, value in json.loads(line).items()})


class Channel:
    """The reading end: calls back, in a thread of its own, with what other processes log and print.

    Args:
        directory: An empty directory of this run alone, with a short path.
        on_event: Called with each event, a line of JSON.
        on_output: Called with each line that a process wrote to its file descriptors 1 and 2.
    """

    def __init__(
        self, directory: Path, on_event: Callable[[str], object], on_output: Callable[[str], object]
    ) -> None:
        self.environment = {VARIABLE: str(directory)}
        """What processes that are to log here need in their environment."""
        self._on_event, self._on_output = on_event, on_output
        self._events = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._events.bind(str(directory / _EVENTS))
        self._events.setblocking(False)
        os.mkfifo(directory / _OUTPUT, 0o600)
        # for writing, too: so it is never at its end
        self._output = os.open(directory / _OUTPUT, os.O_RDWR | os.O_NONBLOCK)
        self._rest = b""
        self._stopping, self._stopped = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Call back with what is there, and stop."""
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
        for _ in range(_MOST_LAST):  # a program that user code started may live on, and print
            if not self._read():
                break
        if self._rest:
            self._hand_on(self._on_output, self._rest)

    def _read(self) -> bool:
        """Read what is there, a little of each kind; tells whether there was something."""
        event, output = self._read_event(), self._read_output()
        return event or output

    def _read_event(self) -> bool:
        try:
            line = self._events.recv(_MOST_BYTES)
        except BlockingIOError:
            return False
        self._hand_on(self._on_event, line)
        return True

    def _read_output(self) -> bool:
        try:
            piece = os.read(self._output, 1 << 16)
        except BlockingIOError:
            return False
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            if line.strip():
                self._hand_on(self._on_output, line)
        return True

    def _hand_on(self, take: Callable[[str], object], line: bytes) -> None:
        with contextlib.suppress(Exception):  # else the other processes would wait for ever
            take(line.decode("utf-8", "replace"))
