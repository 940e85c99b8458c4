"""Worker processes that keep to their partitions.

Spark has a connection to its daemon for each task that runs at a time, and PySpark's own daemon a
process behind each connection. Which of them a task comes by is chance, so that a partition's
entities would have to follow it from process to process. Here any process can serve any connection,
and a task goes to the process that had its partition last, if that is free. Spark also closes
connections that nothing came by for a minute; the processes stay, with the entities they have.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import struct
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wallaroo.system.lifeline import die_with_parent

_TASK = struct.Struct(">iii")
"""What a task begins with: a number that says so, the length of what follows, its partition."""
_FREE = b"f"
"""What a process says when it has run a task."""


@dataclass(eq=False)
class _Process:
    """A worker process."""

    pid: int
    control: socket.socket
    """Takes connections there, one at a time, and `_FREE` back."""
    serves: socket.socket | None = None
    """The connection whose task it runs."""


class Workers:
    """Hands connections by which a task comes to worker processes, and forks those.

    Args:
        listener: Where Spark connects.
        spark: File descriptor that is at its end once Spark is gone.
        run: Called in a worker process, runs the task that comes by a connection; tells whether
            the process can go on.
    """

    def __init__(
        self, listener: socket.socket, spark: int, run: Callable[[socket.socket], bool]
    ) -> None:
        self._listener = listener
        self._spark = spark
        self._run = run
        self._connections: dict[int, socket.socket] = {}
        """By file descriptor."""
        self._processes: dict[int, _Process] = {}
        """By the file descriptor of `control`."""
        self._had: dict[int, _Process] = {}
        """By partition: the process that had it last."""
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)
        self._poll.register(spark, select.POLLIN)

    def serve(self) -> None:
        """Serve until Spark is gone."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended processes leave nothing behind
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._spark:
                    # the process that Spark wants killed serves a connection that it closes, too
                    if not os.read(fd, 4):
                        return
                elif fd == self._listener.fileno():
                    self._accept()
                elif fd in self._processes:
                    self._hear(self._processes[fd])
                elif fd in self._connections:
                    self._take(self._connections[fd])

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        # Spark asks whether the process of this number lives before it uses the connection
        with suppress(OSError):  # Spark is through with it already: `_take` finds out
            connection.sendall(struct.pack(">i", os.getpid()))
        self._connections[connection.fileno()] = connection
        self._poll.register(connection, select.POLLIN)

    def _take(self, connection: socket.socket) -> None:
        """Something came by *connection*, or it was closed."""
        process = next((p for p in self._processes.values() if p.serves is connection), None)
        if process is not None:
            self._hear(process)  # perhaps it is free, and the connection closed for that
            if process.serves is not None:  # else Spark has no use for what it does any more
                with suppress(ProcessLookupError):  # it just died
                    os.kill(process.pid, signal.SIGKILL)
                self._lose(process)
                self._forget(connection)
                return
            if connection.fileno() < 0:  # the process has ended, and its connection with it
                return
        try:
            begin = connection.recv(_TASK.size, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            begin = b""
        if not begin:
            self._forget(connection)
        elif len(begin) == _TASK.size:
            self._hand_over(connection, _TASK.unpack(begin)[2])

    def _hand_over(self, connection: socket.socket, partition: int) -> None:
        process = self._process_for(partition)
        self._had[partition] = process
        process.serves = connection
        self._poll.modify(connection, 0)  # tells that it was closed, and nothing else
        with suppress(OSError):  # it just died: `_hear` finds out
            socket.send_fds(process.control, [_FREE], [connection.fileno()])

    def _process_for(self, partition: int) -> _Process:
        """A process that is free: the one that had *partition* last, or one that has had little."""
        had = self._had.get(partition)
        if had is not None and had.serves is None:
            return had
        free = [process for process in self._processes.values() if process.serves is None]
        held = list(self._had.values())
        return min(free, key=held.count) if free else self._fork()

    def _hear(self, process: _Process) -> None:
        """A process is free, or has ended."""
        try:
            told = process.control.recv(1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            told = b""
        served, process.serves = process.serves, None
        if told:
            if served is not None:
                self._poll.modify(served, select.POLLIN)
            return
        self._lose(process)
        if served is not None:  # Spark sees it closed, and that the task has failed
            self._forget(served)

    def _lose(self, process: _Process) -> None:
        self._poll.unregister(process.control)
        del self._processes[process.control.fileno()]
        process.control.close()
        self._had = {number: had for number, had in self._had.items() if had is not process}

    def _forget(self, connection: socket.socket) -> None:
        self._poll.unregister(connection)
        del self._connections[connection.fileno()]
        connection.close()

    def _fork(self) -> _Process:
        control, theirs = socket.socketpair()
        pid = os.fork()
        if not pid:
            control.close()
            self._be_worker(theirs)
        theirs.close()
        process = self._processes[control.fileno()] = _Process(pid, control)
        self._poll.register(control, select.POLLIN)
        return process

    def _be_worker(self, control: socket.socket) -> None:
        """In a worker process: run what comes, to the end."""
        status = 1
        try:
            die_with_parent()  # which may be killed, and tell nobody
            for other in self._processes.values():
                other.control.close()
            for connection in (self._listener, *self._connections.values()):
                connection.close()
            with Path(os.devnull).open() as nothing:
                os.dup2(nothing.fileno(), self._spark)
            for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            self._run_tasks(control)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def _run_tasks(self, control: socket.socket) -> None:
        while True:
            _, handed, _, _ = socket.recv_fds(control, 1, 1)
            if not handed:
                return
            with socket.socket(fileno=handed[0]) as connection:
                if not self._run(connection):
                    # with something unread it would be closed for Spark before it has read all
                    with suppress(OSError):
                        while connection.recv(1 << 16):
                            pass
                    return
            control.sendall(_FREE)  # at once: the next task may come any moment
            gc.collect()
