"""The requested number of workers, which a ConfigMap holds.

It is fixed, or follows the load: then the ConfigMap has its bounds, and in `CURRENT` the number,
which the driver writes and a chart does not have. So an upgrade of the release leaves it alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.run.kubernetes.failures import call_failures, why_failed
from wallaroo.run.kubernetes.scaling_rule import ScalingSettings

KEY = "workers"
"""Key of a fixed number in the ConfigMap."""
CURRENT = "current"
"""Key of a number that follows the load."""
_WATCH_S = 30
"""Seconds after which a watch is renewed: one whose other side has vanished says nothing either."""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.5, 15.0
"""Seconds before the next attempt after a failure; they double up to the maximum."""
_GONE = 410

log = structlog.get_logger("wallaroo")


class WorkerCount:
    """Watches a ConfigMap in a separate thread.

    A watch that ends is resumed after the last version that it saw. If the cluster has forgotten
    that version, the ConfigMap is read again.

    Args:
        api: A `kubernetes.client.CoreV1Api`.
        namespace: Namespace of the ConfigMap.
        name: Name of the ConfigMap.
        on_change: Called in the thread with a changed number.
    """

    def __init__(
        self, api: Any, namespace: str, name: str, on_change: Callable[[int], None]
    ) -> None:
        self.api = api
        self._selected = {"namespace": namespace, "field_selector": f"metadata.name={name}"}
        self._namespace, self._name = namespace, name
        self._on_change = on_change
        self._known: int | None = None
        self.scaling: ScalingSettings | None = None
        """How the number follows the load; None if it is fixed."""
        self._problem: str | None = None
        self._stopping = threading.Event()
        self._watch: Any = None

    def read(self) -> int:
        """The current number; must be called before `start`.

        Raises:
            RuntimeFailure: The ConfigMap cannot be read.
            UsageError: The number is missing or invalid.
        """
        try:
            listed = self.api.list_namespaced_config_map(**self._selected)
        except call_failures() as error:
            msg = (
                f"the ConfigMap {self._name} cannot be read: {why_failed(error)}; the driver's "
                "ServiceAccount must be allowed to get, list and watch it"
            )
            raise RuntimeFailure(msg) from error
        numbers = [requested(item.data or {}) for item in listed.items]
        if not numbers or numbers[0] is None:
            msg = (
                f"the ConfigMap {self._name} has no valid number of workers: set {KEY!r} to a "
                "number of 1 or more"
            )
            raise UsageError(msg)
        self._version = listed.metadata.resource_version
        self._known, self.scaling = numbers[0], ScalingSettings.of(listed.items[0].data)
        return numbers[0]

    @property
    def problem(self) -> str | None:
        """Why changes are not seen at the moment; None while they are."""
        return self._problem

    def write(self, number: int) -> None:
        """Request *number* workers, in place of those that the load needed before.

        Raises:
            RuntimeFailure: The ConfigMap cannot be written.
        """
        try:
            self.api.patch_namespaced_config_map(
                self._name, self._namespace, {"data": {CURRENT: str(number)}}
            )
        except call_failures() as error:
            msg = (
                f"the ConfigMap {self._name} cannot be written: {why_failed(error)}; the driver's "
                "ServiceAccount must be allowed to patch it"
            )
            raise RuntimeFailure(msg) from error

    def start(self) -> None:
        """Start watching, from the version that `read` has seen."""
        threading.Thread(target=self._run, name="worker-count", daemon=True).start()

    def stop(self) -> None:
        """Stop watching, at the next response of the API."""
        self._stopping.set()
        if self._watch is not None:
            self._watch.stop()

    def _run(self) -> None:
        pause = _FIRST_PAUSE_S
        while not self._stopping.is_set():
            try:
                if self._version is None:
                    self._relist()
                self._follow()
                self._problem, pause = None, _FIRST_PAUSE_S
            except call_failures(OSError) as error:
                if getattr(error, "status", None) == _GONE:
                    self._version = None
                    continue
                self._problem = f"the ConfigMap {self._name} cannot be watched: {why_failed(error)}"
                log.warning("workers are not followed", reason=self._problem, again_in_s=pause)
                self._stopping.wait(pause)
                pause = min(2 * pause, _MAX_PAUSE_S)

    def _relist(self) -> None:
        listed = self.api.list_namespaced_config_map(**self._selected)
        for item in listed.items:
            self._handle(item)
        self._version = listed.metadata.resource_version

    def _follow(self) -> None:
        from kubernetes.watch import Watch

        self._watch = Watch()
        for event in self._watch.stream(
            self.api.list_namespaced_config_map,
            **self._selected,
            resource_version=self._version,
            timeout_seconds=_WATCH_S,
            _request_timeout=(_MAX_PAUSE_S, _WATCH_S + _MAX_PAUSE_S),
        ):
            if event["type"] in {"ADDED", "MODIFIED"}:
                self._handle(event["object"])
            self._version = event["object"].metadata.resource_version

    def _handle(self, item: Any) -> None:
        data = item.data or {}
        number, self.scaling = requested(data, self._known), ScalingSettings.of(data)
        if number is None:
            log.warning(
                "workers are not changed",
                reason=f"{KEY!r} in the ConfigMap {self._name} is not a number of 1 or more",
            )
        elif number != self._known:
            self._known = number
            self._on_change(number)


def requested(data: Mapping[str, str], known: int | None = None) -> int | None:
    """The number that the *data* of a ConfigMap requests, if *known* was before; None for none.

    Example:
        >>> requested({"workers": "4"}), requested({})
        (4, None)
        >>> bounds = {"min": "2", "max": "8", "mode": "scale", "upAfterSeconds": "30"}
        >>> bounds["downAfterSeconds"] = "300"
        >>> requested(bounds), requested({**bounds, "current": "9"}), requested(bounds, 5)
        (2, 8, 5)
    """
    scaling = ScalingSettings.of(data)
    if KEY in data or scaling is None:
        return _positive(data.get(KEY))
    number = _positive(data.get(CURRENT)) or known or scaling.minimum
    return min(max(number, scaling.minimum), scaling.maximum)


def _positive(text: str | None) -> int | None:
    return (int(text) if text and text.isdecimal() else 0) or None
