"""The parent of the processes of real-time queries on one machine.

Spark's Java starts it together with itself, so that modules are loaded by the time a query starts:
a process is then a fork. On a cluster each executor has an agent. It ends with its Java, and its
processes end with it, as does what user code has started in them.

Java writes frames to standard input, with parts that a zero byte separates: `start`, the name of a
process, its role, the socket at which Java waits for it and the directory of distributed files,
followed by a frame with the pickled `Job`; or `kill` and a name. On standard output the agent
prints the private directory in which Java is to listen, and then for each process that ended its
name and exit code, negative for a signal.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import struct
import sys
from typing import IO

from wallaroo.observability import log_channel
from wallaroo.system import imports
from wallaroo.system.credentials import hide_token
from wallaroo.system.lifeline import die_with_parent, fork_group, kill_group, reap_group
from wallaroo.system.memory import to_be_killed_first
from wallaroo.system.scratch import Scratch

_NEEDED = (
    "wallaroo.engine.realtime.process",
    "wallaroo.engine.realtime.reader",
    "wallaroo.engine.realtime.partition",
    "numpy",  # for chunks of many keys: the first of them is not to wait for it
)
_LENGTH = struct.Struct(">I")


class Agent:
    """Starts and ends processes.

    Args:
        commands: What Java writes.
        reports: What Java reads.
    """

    def __init__(self, commands: IO[bytes], reports: IO[bytes]) -> None:
        self._commands = commands
        self._reports = reports
        self._processes: dict[str, int] = {}
        """Numbers of running processes by name."""

    def serve(self) -> None:
        """Serve Java until it ends."""
        ended, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # it only writes to the pipe
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._commands, select.POLLIN)
        poll.register(ended, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if ended in ready:
                os.read(ended, 4096)
                self._report_ended()
            if self._commands.fileno() in ready and not self._obey():
                break
        for pid in self._processes.values():
            kill_group(pid)

    def report(self, line: str) -> None:
        """Send *line* to Java."""
        with contextlib.suppress(BrokenPipeError):  # it has ended
            self._reports.write(line.encode() + b"\n")
            self._reports.flush()

    def _obey(self) -> bool:
        """Carry out a command; returns whether there was one."""
        frame = self._frame()
        if frame is None:
            return False
        command, name, *more = frame.decode().split("\0")
        if command == "kill":
            if (pid := self._processes.get(name)) is not None:
                kill_group(pid)
            return True
        job = self._frame()
        if job is None:
            return False
        role, socket, files = more
        self._start(name, job, int(role), socket, files)
        return True

    def _start(self, name: str, job: bytes, role: int, socket: str, files: str) -> None:
        pid = fork_group()
        if pid:
            self._processes[name] = pid
            return
        try:
            die_with_parent()  # in case the agent is killed, also together with its Java
            to_be_killed_first()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._commands.close()
            self._reports.close()
            from wallaroo.engine.realtime.process import run

            run(job, role, socket, files)
        finally:
            os._exit(1)

    def _report_ended(self) -> None:
        for name, pid in list(self._processes.items()):
            status = reap_group(pid)
            if status is not None:
                del self._processes[name]
                self.report(f"{name} {os.waitstatus_to_exitcode(status)}")

    def _frame(self) -> bytes | None:
        """The next frame; None at the end."""
        head = self._exactly(_LENGTH.size)
        return None if head is None else self._exactly(*_LENGTH.unpack(head))

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            piece = self._commands.read(size - len(data))
            if not piece:
                return None
            data += piece
        return data


def main() -> None:
    """Be an agent; standard input and output are left to user code, and stand for nothing."""
    commands = os.fdopen(os.dup(0), "rb", buffering=0)
    reports = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    log_channel.take_over()
    hide_token()  # which user code in its forks could read as that of their parent
    agent = Agent(commands, reports)
    with Scratch() as directory:
        agent.report(directory)
        with imports.kept():  # otherwise the first collection in each process would copy all pages
            for name in _NEEDED:
                importlib.import_module(name)
            gc.collect()
        agent.serve()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
