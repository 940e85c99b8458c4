"""Worker processes with affinity to partitions.

Spark has one connection to its daemon per concurrent task, and PySpark's daemon has one process per
connection. A task uses an arbitrary connection, so a partition's entities would have to move
between processes. Here any process can serve any connection, and a task goes to the process that
last had its partition, if that is free. Spark also closes connections that are idle for a minute;
the processes survive, with their entities.
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

from wallaroo.dataflow.process_health import note_task
from wallaroo.system.lifeline import die_with_parent
from wallaroo.system.memory import to_be_killed_first

_TASK = struct.Struct(">iii")
"""The beginning of a task: a marker, the length of the following data, its partition."""
_FREE = b"f"
"""Message of a process that has completed a task."""


@dataclass(eq=False)
class _Process:
    """A worker process."""

    pid: int
    control: socket.socket
    """Passes connections to the process, one at a time, and `_FREE` back."""
    serves: socket.socket | None = None
    """The connection whose task it is running."""


class Workers:
    """Forks worker processes and passes them connections with a task.

    Args:
        listener: Socket to which Spark connects.
        spark: File descriptor that is closed when Spark ends.
        run: Called in a worker process to run the task from a connection; returns whether the
            process can be reused.
    """

    def __init__(
        self, listener: socket.socket, spark: int, run: Callable[[socket.socket], bool]
    ) -> None:
        self._listener = listener
        self._spark = spark
        self._run = run
        self._connections: dict[int, socket.socket] = {}
        """Connections by file descriptor."""
        self._processes: dict[int, _Process] = {}
        """Processes by file descriptor of `control`."""
        self._last: dict[int, _Process] = {}
        """The process that last had each partition."""
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)
        self._poll.register(spark, select.POLLIN)

    def serve(self) -> None:
        """Serve until Spark ends."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombie processes
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._spark:
                    # Spark also closes the connection of the process that it wants killed
                    if not os.read(fd, 4):
                        return
                elif fd == self._listener.fileno():
                    self._accept()
                elif fd in self._processes:
                    self._on_process(self._processes[fd])
                elif fd in self._connections:
                    self._on_connection(self._connections[fd])

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        # Spark checks whether the process with this ID is alive before it uses the connection
        with suppress(OSError):  # Spark has closed it: `_on_connection` handles this
            connection.sendall(struct.pack(">i", os.getpid()))
        self._connections[connection.fileno()] = connection
        self._poll.register(connection, select.POLLIN)

    def _on_connection(self, connection: socket.socket) -> None:
        """Handle data on *connection*, or its end."""
        process = next((p for p in self._processes.values() if p.serves is connection), None)
        if process is not None:
            self._on_process(process)  # it may have just become free, so Spark closed it
            if process.serves is not None:  # still running: Spark has cancelled the task
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(process.pid, signal.SIGKILL)
                self._remove_process(process)
                self._close(connection)
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
            self._close(connection)
        elif len(begin) == _TASK.size:
            self._hand_over(connection, _TASK.unpack(begin)[2])

    def _hand_over(self, connection: socket.socket, partition: int) -> None:
        process = self._process_for(partition)
        self._last[partition] = process
        process.serves = connection
        self._poll.modify(connection, 0)  # reports only its closing
        with suppress(OSError):  # it has just ended: `_on_process` handles this
            socket.send_fds(process.control, [_FREE], [connection.fileno()])

    def _process_for(self, partition: int) -> _Process:
        """Return a free process: the last one with *partition*, or the one with the fewest."""
        last = self._last.get(partition)
        if last is not None and last.serves is None:
            return last
        free = [process for process in self._processes.values() if process.serves is None]
        assigned = list(self._last.values())
        return min(free, key=assigned.count) if free else self._fork()

    def _on_process(self, process: _Process) -> None:
        """Handle a process that has become free, or has ended."""
        try:
            message = process.control.recv(1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        served, process.serves = process.serves, None
        if message:
            if served is not None:
                self._poll.modify(served, select.POLLIN)
            return
        self._remove_process(process)
        if served is not None:  # closing it makes the task fail in Spark
            self._close(served)

    def _remove_process(self, process: _Process) -> None:
        self._poll.unregister(process.control)
        del self._processes[process.control.fileno()]
        process.control.close()
        self._last = {number: last for number, last in self._last.items() if last is not process}

    def _close(self, connection: socket.socket) -> None:
        self._poll.unregister(connection)
        del self._connections[connection.fileno()]
        connection.close()

    def _fork(self) -> _Process:
        control, remote = socket.socketpair()
        pid = os.fork()
        if not pid:
            control.close()
            self._run_worker(remote)
        remote.close()
        process = self._processes[control.fileno()] = _Process(pid, control)
        self._poll.register(control, select.POLLIN)
        return process

    def _run_worker(self, control: socket.socket) -> None:
        """Run tasks in a worker process until it ends."""
        status = 1
        try:
            die_with_parent()  # in case the parent is killed
            to_be_killed_first()
            for other in self._processes.values():
                other.control.close()
            for connection in (self._listener, *self._connections.values()):
                connection.close()
            with Path(os.devnull).open() as devnull:
                os.dup2(devnull.fileno(), self._spark)
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
            _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            if not descriptors:
                return
            with socket.socket(fileno=descriptors[0]) as connection:
                note_task([connection.fileno(), control.fileno()])
                if not self._run(connection):
                    # closing it with unread data would reset it before Spark has read everything
                    with suppress(OSError):
                        while connection.recv(1 << 16):
                            pass
                    return
            control.sendall(_FREE)  # before collecting, as the next task may follow immediately
            gc.collect()
