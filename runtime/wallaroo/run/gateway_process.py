"""The gateway as a supervised child process."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import structlog

from wallaroo.errors import RuntimeFailure
from wallaroo.model.endpoints import Sink, Source
from wallaroo.system import standard_output
from wallaroo.system.memory import MemoryKills
from wallaroo.system.process_end import how_ended, what_to_do
from wallaroo.system.restarts import Restart, Restarts

_END_TIMEOUT_S = 20.0
"""Seconds that the gateway may take to stop."""
_SILENT_END_S = 5.0
"""Seconds until the end of a gateway that has closed its standard output."""
_REPORT_BYTES = 65_536
"""Longest report of a gateway that has ended."""

log = structlog.get_logger("wallaroo")


class GatewayProcess:
    """A gateway as a child process, which is restarted whenever it ends.

    Args:
        command: The command that starts it. It binds the same addresses at every restart.
    """

    WORKS_S = 10.0
    """A gateway that runs for this many seconds works, even if it has nothing to do."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._restarts = Restarts()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self.starts = 0
        """Number of successful starts."""
        self.failure: str | None = None
        """Why it is not restarted any more; None while it is."""
        self._remedy = ""
        """What to do if it ended without an error message."""
        self._damage = False
        """Whether it found a file that is not as it was written, so that no restart helps."""
        self._process: subprocess.Popen[str] | None = None
        self._replaced: threading.Event | None = None
        """To be set when the gateway of another command has started; None unless it is to."""
        self._before: Sequence[str] | None = None
        """The command to return to if the other one does not start a gateway."""
        self._refusal: str | None = None
        """Why the other one did not; None if it did."""
        self.pids: set[int] = set()
        """Numbers of all processes that were started."""
        self._watcher = threading.Thread(target=self._watch, name="gateway", daemon=True)

    @property
    def pid(self) -> int | None:
        """Number of the current process; None before the first start."""
        return None if self._process is None else self._process.pid

    def restarts(self) -> Sequence[Restart]:
        """Its last restarts, the oldest first."""
        return tuple(self._restarts.last)

    def start(self) -> None:
        """Start the gateway; returns when its addresses are bound.

        Raises:
            RuntimeFailure: It did not start.
        """
        problem = self._launch()
        if problem is not None:
            msg = f"{problem}{self._remedy}"
            raise RuntimeFailure(msg)
        self._watcher.start()

    def worked(self) -> None:
        """Record that the gateway works, so that its next end does not count as a failed start."""
        self._restarts.worked()

    def replace(self, command: Sequence[str]) -> None:
        """Stop the gateway, and start the one of *command*; returns when its addresses are bound.

        Raises:
            RuntimeFailure: It did not start. The one from before serves again, unless `failure`
                says why not.
        """
        replaced = threading.Event()
        with self._lock:
            self._before, self._command, self._refusal = self._command, command, None
            self._replaced, process = replaced, self._process
        assert process is not None
        _end(process)
        replaced.wait()
        if self.failure is not None:
            raise RuntimeFailure(self.failure)
        if self._refusal is not None:
            msg = f"the gateway does not start with the changed application: {self._refusal}"
            raise RuntimeFailure(msg)

    def stop(self) -> None:
        """Stop the gateway, and kill it if it does not stop in time."""
        with self._lock:
            self._stopping.set()
            process = self._process
        if process is not None:
            _end(process)
        if self._watcher.is_alive():
            self._watcher.join()  # it reads what the gateway has reported last
        if process is not None:
            _wait_and_close(process)

    def _launch(self) -> str | None:
        """Start a process; returns why it did not start, or None."""
        with self._lock:
            if self._stopping.is_set():
                return "stopped"
            descriptors, environment = standard_output.passed_on()
            self._process = process = subprocess.Popen(
                self._command,
                pass_fds=descriptors,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,  # Ctrl-C must not reach it: this process stops it
            )
            self.pids.add(process.pid)
            self._kills = MemoryKills()
        assert process.stdout is not None
        report = _read_report(process.stdout)
        if "sources" not in report:
            if "error" not in report and (code := _exit_code(process)) is not None:
                report = {
                    "error": f"the gateway {how_ended(code, self._kills)} while it was starting"
                }
                self._remedy = f": {what_to_do(code, self._kills)}"
            process.kill()
            _wait_and_close(process)
            self._damage = report.get("damage") is True
            return str(report.get("error") or "the gateway did not start")
        self.starts += 1
        self._up_since = time.monotonic()
        return None

    def _relaunch(self) -> str | None:
        """Start a process, by the command from before if that of `replace` fails; see `_launch`."""
        problem = self._launch()
        if problem is not None and self._before is not None:
            self._refusal, self._command, self._before = problem, self._before, None
            problem = self._launch()
        return problem

    def _watch(self) -> None:
        try:
            self._supervise()
        finally:
            self._has_replaced()

    def _has_replaced(self) -> bool:
        """Let `replace` continue, if it waits; returns whether it did."""
        with self._lock:
            replaced, self._replaced, self._before = self._replaced, None, None
        if replaced is not None:
            replaced.set()
        return replaced is not None

    def _supervise(self) -> None:
        while True:
            assert self._process is not None
            self._process.wait()
            report = _last_report(self._process)
            code = _wait_and_close(self._process)
            if self._stopping.is_set():
                return
            if self._replaced is not None:
                problem = self._relaunch()
            else:
                self._damage = report.get("damage") is True
                if time.monotonic() - self._up_since >= self.WORKS_S:
                    self._restarts.worked()
                problem = str(report.get("error") or f"it {how_ended(code, self._kills)}")
            while problem is not None:
                if self._damage:
                    self.failure = problem
                    return
                pause = self._restarts.pause(problem)
                if pause is None:
                    self.failure = (
                        f"the gateway failed {self._restarts.failures} times in a row: {problem}; "
                        "fix that, then start again with the same --state-dir"
                    )
                    return
                log.warning("gateway restarts", reason=problem, pause_s=pause)
                if self._stopping.wait(pause):
                    return
                problem = self._relaunch()
            if not self._has_replaced():
                log.info("gateway restarted", times=self.starts - 1)


def _end(process: subprocess.Popen[str]) -> None:
    """Let *process* stop, and kill it if it does not stop in time."""
    process.terminate()
    try:
        process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _read_report(lines: Iterable[str]) -> dict[str, Any]:
    """What a gateway reports when it has started or failed: the first line with a JSON object."""
    for line in lines:
        with contextlib.suppress(ValueError):  # Python itself may print something first
            if isinstance(report := json.loads(line), dict):
                return report
    return {}


def _last_report(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a gateway that has ended reported since it started."""
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)  # user code may have forked it
    with contextlib.suppress(BlockingIOError):
        written = os.read(process.stdout.fileno(), _REPORT_BYTES).decode("utf-8", "replace")
        return _read_report(written.splitlines())
    return {}


def _exit_code(process: subprocess.Popen[str]) -> int | None:
    """The exit code of a gateway that has closed its standard output; None if it still runs."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_SILENT_END_S)
    return None


def _wait_and_close(process: subprocess.Popen[str]) -> int:
    """Wait for the end of *process* and close its pipes; returns its exit code."""
    code = process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    return code


@contextlib.contextmanager
def reserved_ports(endpoints: Sequence[Source | Sink]) -> Iterator[list[int]]:
    """A port for each of *endpoints* that remains reserved between restarts; 0 if it needs none.

    If the system chooses the port (port 0), it is bound here, without listening, so that no other
    process can get it between two gateways. Linux lets the gateway bind it as well.
    """
    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        for endpoint in endpoints:
            host, port = endpoint.address or ("", 0)
            if endpoint.address is not None and port == 0:
                family = socket.AF_INET6 if ":" in host else socket.AF_INET
                holder = stack.enter_context(socket.socket(family))
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                with contextlib.suppress(OSError):  # the gateway reports it in more detail
                    holder.bind((host, 0))
                    port = holder.getsockname()[1]
            ports.append(port)
        yield ports
