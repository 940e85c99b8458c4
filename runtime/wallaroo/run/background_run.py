"""`wallaroo run` as a child process, for tools and tests that feed an application."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.internal_api.client import GatewayClient

_READY_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 120.0
_ACCEPT_TIMEOUT_S = 60.0
_CHECK_INTERVAL_S = 0.05

_NOTHING: Mapping[str, str] = {}

Event = dict[str, Any]
"""A log event, as parsed from its JSON line."""


class BackgroundRun:
    """A running `wallaroo run`; a context manager that kills the process if it has not ended.

    With `--child`, the process also ends if this one is killed.

    Args:
        arguments: Arguments of `wallaroo`, starting with `run`.
        on_event: Called with each log event, in a thread.
    """

    def __init__(
        self, arguments: Sequence[str], on_event: Callable[[Event], None] = lambda _event: None
    ) -> None:
        self.events: list[Event] = []
        self.client: GatewayClient | None = None
        self._on_event = on_event
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "wallaroo", *arguments],
            stdin=subprocess.PIPE,  # closed when this process ends, for `--child`
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        self._reader = threading.Thread(target=self._read, name="run-log", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        try:
            ready = self.wait_for_event("ready", _READY_TIMEOUT_S)
        except BaseException:
            self._kill()
            raise
        self.sources: dict[str, str] = ready["sources"]
        self.client = GatewayClient(ready["gateway"])
        return self

    def __exit__(self, *_exc: object) -> None:
        self._kill()

    def wait_for_event(
        self, name: str, timeout_s: float, containing: Mapping[str, str] = _NOTHING
    ) -> Event:
        """The first event called *name* whose fields contain the texts of *containing*.

        Raises:
            RuntimeFailure: The process ended without it, or it took too long.
        """

        def matches(event: Event) -> bool:
            return event["event"] == name and all(
                text in event.get(field, "") for field, text in containing.items()
            )

        def first() -> Event | None:
            return next((event for event in self.events if matches(event)), None)

        with self._changed:
            self._changed.wait_for(lambda: first() or not self._reader.is_alive(), timeout_s)
        event = first()
        if event is None:
            msg = f"no event {name!r} after {timeout_s:.0f} s; wallaroo run {self._last_events()}"
            raise RuntimeFailure(msg)
        return event

    def wait_until_accepted(self, source: str, count: int) -> None:
        """Wait until *count* messages of *source* are accepted.

        Raises:
            RuntimeFailure: It took too long.
        """
        assert self.client is not None
        if not self.client.wait_until_accepted(source, count, _ACCEPT_TIMEOUT_S):
            msg = f"{source} has not accepted {count} messages after {_ACCEPT_TIMEOUT_S:.0f} s"
            raise RuntimeFailure(msg)

    def wait_until_processed(self) -> None:
        """Wait until every accepted message is processed and delivered, or the process ends."""
        assert self.client is not None
        while self.process.poll() is None:
            status = self.client.status()
            if not status.backlog and not status.undelivered:
                return
            time.sleep(_CHECK_INTERVAL_S)

    def wait(self, timeout_s: float = _STOP_TIMEOUT_S) -> int:
        """Wait for the end of the process and its last event; returns the exit code."""
        code = self.process.wait(timeout_s)
        self._reader.join(timeout_s)
        return code

    def stop(self) -> int:
        """Send SIGTERM, and return the exit code.

        Raises:
            RuntimeFailure: The process does not end.
        """
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            msg = f"after SIGTERM and {_STOP_TIMEOUT_S:.0f} s, wallaroo run {self._last_events()}"
            raise RuntimeFailure(msg) from None

    def _last_events(self) -> str:
        code = self.process.poll()
        state = "is still running" if code is None else f"ended with exit code {code}"
        return f"{state}: {' | '.join(str(event['event']) for event in self.events[-8:])}"

    def _kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(_STOP_TIMEOUT_S)

    def _read(self) -> None:
        assert self.process.stderr is not None
        assert self.process.stdin is not None
        with self.process.stderr, self.process.stdin:
            for line in self.process.stderr:
                try:
                    event = json.loads(line)
                except ValueError:
                    event = {"event": line.decode("utf-8", "replace").rstrip()}
                with self._changed:
                    self.events.append(event)
                    self._changed.notify_all()
                self._on_event(event)
        with self._changed:
            self._changed.notify_all()
