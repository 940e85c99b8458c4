"""The gateway's process, which is started again when it dies."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any

import structlog

from wallaroo.errors import RuntimeFailure
from wallaroo.model.application import Source
from wallaroo.system.process_end import how_ended, what_to_do
from wallaroo.system.restarts import Restarts

_END_TIMEOUT_S = 20.0
"""Time for the gateway to end when it is told to."""

_SILENT_END_S = 5.0
"""Time for the end of a gateway that has closed its standard output."""

log = structlog.get_logger("wallaroo")


class GatewayProcess:
    """The gateway as a child process, which is started anew whenever it dies.

    Args:
        command: Starts it; the same each time, so that it binds the same addresses.
    """

    WORKS_S = 10.0
    """A gateway that lives for so long works, also where it is not asked for anything."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._restarts = Restarts()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self.starts = 0
        """Times that it came up."""
        self.failure: str | None = None
        """Why it is not started any more; None while it is."""
        self._remedy = ""
        """What to do where it ended without a word."""
        self._process: subprocess.Popen[str] | None = None
        self._watcher = threading.Thread(target=self._watch, name="gateway", daemon=True)

    @property
    def pid(self) -> int | None:
        """Number of the current process; None before the first start."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it; returns when its addresses are bound.

        Raises:
            RuntimeFailure: It did not start.
        """
        problem = self._launch()
        if problem is not None:
            msg = f"{problem}{self._remedy}"
            raise RuntimeFailure(msg)
        self._watcher.start()

    def worked(self) -> None:
        """Note that it has done what it is for: if it dies now, that is no failed start."""
        self._restarts.worked()

    def stop(self) -> None:
        """End it, in good order if it lets itself be."""
        with self._lock:
            self._stopping.set()
            process = self._process
        if process is not None:
            process.terminate()
            try:
                process.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _wait_and_close(process)
        if self._watcher.is_alive():
            self._watcher.join()

    def _launch(self) -> str | None:
        """Start a process; returns why it did not come up, if it did not."""
        with self._lock:
            if self._stopping.is_set():
                return "stopped"
            self._process = process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,  # Ctrl-C is for us, who stop it in good order
            )
        assert process.stdout is not None
        told = _told(process.stdout)
        if "sources" not in told:
            if "error" not in told and (code := _ended(process)) is not None:
                told = {"error": f"the gateway {how_ended(code)} while it was starting"}
                self._remedy = f": {what_to_do(code)}"
            process.kill()
            _wait_and_close(process)
            return str(told.get("error") or "the gateway did not start")
        self.starts += 1
        self._up_since = time.monotonic()
        return None

    def _watch(self) -> None:
        while True:
            assert self._process is not None
            code = _wait_and_close(self._process)
            if self._stopping.is_set():
                return
            if time.monotonic() - self._up_since >= self.WORKS_S:
                self._restarts.worked()
            problem: str | None = f"it {how_ended(code)}"
            while problem is not None:
                pause = self._restarts.pause()
                if pause is None:
                    self.failure = (
                        f"the gateway failed {self._restarts.failures} times in a row: {problem}; "
                        "mend that, then start again with the same --state-dir"
                    )
                    return
                log.warning("gateway restarts", reason=problem, pause_s=pause)
                if self._stopping.wait(pause):
                    return
                problem = self._launch()
            log.info("gateway restarted", times=self.starts - 1)


def _told(lines: IO[str]) -> dict[str, Any]:
    """What a gateway tells in *lines*; what Python's own start may print before is no object."""
    for line in lines:
        with contextlib.suppress(ValueError):
            if isinstance(told := json.loads(line), dict):
                return told
    return {}


def _ended(process: subprocess.Popen[str]) -> int | None:
    """The exit code of a gateway that has closed its standard output; None if it goes on."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_SILENT_END_S)
    return None


def _wait_and_close(process: subprocess.Popen[str]) -> int:
    """Wait for the end of *process*, and let go of what it leaves; returns its exit code."""
    code = process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    return code


@contextlib.contextmanager
def reserved_ports(sources: Sequence[Source]) -> Iterator[list[int]]:
    """Ports for *sources*, which stay theirs while the gateway is started anew; 0 for none.

    Where a source leaves the choice to the system (port 0), the port is bound here, without
    listening, so that nobody else is given it between two gateways; Linux lets the gateway bind it
    beside us.
    """
    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        for source in sources:
            host, port = source.address or ("", 0)
            if source.address is not None and port == 0:
                family = socket.AF_INET6 if ":" in host else socket.AF_INET
                holder = stack.enter_context(socket.socket(family))
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                with contextlib.suppress(OSError):  # the gateway will say it with more words
                    holder.bind((host, 0))
                    port = holder.getsockname()[1]
            ports.append(port)
        yield ports
