"""The parts of the application: processes that are started again whenever they end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.chaos.sockets import TO_FIRST_STAGE, TO_PARTITION, is_connected
from tests.helpers import processes_below, wait_until

Event = Mapping[str, Any]
"""A log event, as parsed from its line of JSON."""

_READY_S = 240.0
"""Time for a part to be ready; it may wait for another one."""
_STOP_S = 180.0
_MOST_FAILURES = 3
"""Starts in a row that fail after which a part is not started any more."""


class Part:
    """A process of `wallaroo`, which is started again when it ends, as Kubernetes would do.

    Args:
        arguments: Arguments of `wallaroo`, with the command first.
        environment: All of its environment variables.
        on_event: Called with each log event, in a thread.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        on_event: Callable[[Event], None],
    ) -> None:
        self.name = arguments[0]
        self._command = [sys.executable, "-m", "wallaroo", *arguments]
        self._environment = environment
        self._on_event = on_event
        self._ending = threading.Event()
        self._changed = threading.Condition()
        self._is_ready = False
        self.starts = 0
        """How often it was started and became ready."""
        self.problem: str | None = None
        """Why it is not started any more; None while it is."""
        self._process = self._launch()
        self._keeper = threading.Thread(target=self._keep_running, daemon=True)
        self._keeper.start()

    @property
    def pid(self) -> int:
        """Number of the current process."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether the current process is there and ready."""
        return self._is_ready and self._process.poll() is None

    def processes(self, kind: str) -> list[int]:
        """Numbers of the processes below it of a kind: gateway, java, agent, reader, worker."""
        below = processes_below(self.pid)
        return [pid for pid, command in below.items() if _kind(pid, command) == kind]

    def wait_for_start(self, starts: int = 1, timeout_s: float = _READY_S) -> bool:
        """Wait until it was started so often; returns whether it was."""
        with self._changed:
            self._changed.wait_for(
                lambda: self.starts >= starts or self.problem is not None, timeout_s
            )
            return self.starts >= starts

    def wait_for_end(self, pid: int, timeout_s: float) -> None:
        """Wait until the process *pid*, which was killed, is gone."""
        wait_until(
            lambda: self.pid != pid or self._process.poll() is not None, "its end", timeout_s
        )

    def stop(self) -> int:
        """Stop it in good order, not to be started again; its exit code."""
        self._ending.set()
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(_STOP_S)

    def kill(self) -> None:
        """End it for good."""
        self._ending.set()
        self._process.kill()
        self._process.wait()
        self._keeper.join(_STOP_S)

    def _launch(self) -> subprocess.Popen[bytes]:
        self._is_ready = False
        process = subprocess.Popen(
            self._command,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=dict(self._environment),
        )
        threading.Thread(target=self._read, args=(process,), daemon=True).start()
        return process

    def _keep_running(self) -> None:
        failures = 0
        while True:
            code = self._process.wait()
            if self._ending.is_set():
                return
            failures = 0 if self._is_ready or code == -signal.SIGKILL else failures + 1
            if failures == _MOST_FAILURES:
                with self._changed:
                    self.problem = f"wallaroo {self.name} did not start again: exit code {code}"
                    self._changed.notify_all()
                return
            self._process = self._launch()

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                try:
                    event = json.loads(line)
                except ValueError:  # no log event, such as a traceback
                    event = {"event": line.decode("utf-8", "replace").rstrip()}
                if event.get("event") == "ready" and process is self._process:
                    with self._changed:
                        self._is_ready = True
                        self.starts += 1
                        self._changed.notify_all()
                self._on_event(event)


def _kind(pid: int, command: str) -> str | None:
    """What a process of the application is, by its command line and its connections."""
    if " wallaroo.engine.realtime.agent" in command:  # it, and what it has forked
        kinds = {TO_FIRST_STAGE: "reader", TO_PARTITION: "worker", "": "agent"}
        return next(kind for name, kind in kinds.items() if not name or is_connected(pid, name))
    if " wallaroo gateway " in command:
        return "gateway"
    if "PythonGatewayServer" in command:
        return "java"
    return None
