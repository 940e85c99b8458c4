"""The wanted number of workers, as a ConfigMap of the cluster has it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import structlog

from wallaroo.errors import RuntimeFailure, UsageError

KEY = "workers"
"""Key of the ConfigMap under which the number stands."""
_WATCH_S = 290
"""Seconds after which a watch is asked for anew, before anything between here and there ends it."""
_PAUSE_FIRST_S, _PAUSE_MOST_S = 0.5, 15.0
"""Pause before the API is asked again after it failed: doubles from the first to the most."""
_GONE = 410

log = structlog.get_logger("wallaroo")


class WorkerCount:
    """Watches a ConfigMap, in a thread of its own.

    A watch that ends goes on behind the last version seen; where the cluster has forgotten that
    version, the ConfigMap is read anew.

    Args:
        api: A `kubernetes.client.CoreV1Api`.
        namespace: Namespace of the ConfigMap.
        name: Its name.
        on_change: Called with the number, when it is another one, in the thread.
    """

    def __init__(
        self, api: Any, namespace: str, name: str, on_change: Callable[[int], None]
    ) -> None:
        self._api = api
        self._selected = {"namespace": namespace, "field_selector": f"metadata.name={name}"}
        self._name = name
        self._on_change = on_change
        self._known: int | None = None
        self._problem: str | None = None
        self._stopping = threading.Event()
        self._watch: Any = None

    def read(self) -> int:
        """The number as it is now, before `start`.

        Raises:
            RuntimeFailure: It cannot be read.
            UsageError: There is none, or it is no number.
        """
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        try:
            listed = self._api.list_namespaced_config_map(**self._selected)
        except (ApiException, HTTPError) as error:
            msg = (
                f"the ConfigMap {self._name} cannot be read: {_told(error)}; the driver's service "
                "account must be allowed to get, list and watch it"
            )
            raise RuntimeFailure(msg) from error
        numbers = [_number(item) for item in listed.items]
        if not numbers or numbers[0] is None:
            msg = (
                f"the ConfigMap {self._name} does not tell how many workers are wanted: give it "
                f"a number of 1 or more under {KEY!r}"
            )
            raise UsageError(msg)
        self._version = listed.metadata.resource_version
        self._known = numbers[0]
        return numbers[0]

    @property
    def problem(self) -> str | None:
        """Why the number is not followed now; None while it is."""
        return self._problem

    def start(self) -> None:
        """Watch from what `read` has seen on."""
        threading.Thread(target=self._run, name="wanted-workers", daemon=True).start()

    def stop(self) -> None:
        """Stop watching, as soon as the API says something."""
        self._stopping.set()
        if self._watch is not None:
            self._watch.stop()

    def _run(self) -> None:
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        pause = _PAUSE_FIRST_S
        while not self._stopping.is_set():
            try:
                if self._version is None:
                    self._relist()
                self._follow()
                self._problem, pause = None, _PAUSE_FIRST_S
            except (ApiException, HTTPError, OSError) as error:
                if getattr(error, "status", None) == _GONE:
                    self._version = None
                    continue
                self._problem = f"the ConfigMap {self._name} cannot be watched: {_told(error)}"
                log.warning("workers are not followed", reason=self._problem, again_in_s=pause)
                self._stopping.wait(pause)
                pause = min(2 * pause, _PAUSE_MOST_S)

    def _relist(self) -> None:
        listed = self._api.list_namespaced_config_map(**self._selected)
        for item in listed.items:
            self._see(item)
        self._version = listed.metadata.resource_version

    def _follow(self) -> None:
        from kubernetes.watch import Watch

        self._watch = Watch()
        for event in self._watch.stream(
            self._api.list_namespaced_config_map,
            **self._selected,
            resource_version=self._version,
            timeout_seconds=_WATCH_S,
            _request_timeout=(_PAUSE_MOST_S, _WATCH_S + _PAUSE_MOST_S),
        ):
            if event["type"] in {"ADDED", "MODIFIED"}:
                self._see(event["object"])
            self._version = event["object"].metadata.resource_version

    def _see(self, item: Any) -> None:
        number = _number(item)
        if number is None:
            log.warning(
                "workers are not changed",
                reason=f"the ConfigMap {self._name} has no number of 1 or more under {KEY!r}",
            )
        elif number != self._known:
            self._known = number
            self._on_change(number)


def _number(item: Any) -> int | None:
    text = str((item.data or {}).get(KEY, ""))
    number = int(text) if text.isdecimal() else 0
    return number or None


def _told(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return f"{getattr(error, 'status', '')} {reason}".strip() if reason else str(error)
