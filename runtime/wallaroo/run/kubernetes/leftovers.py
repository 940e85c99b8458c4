"""Executors that an earlier driver of the same pod has left behind.

Executors end with their driver's pod. If only its container restarts, those that wait for room
stay, and would take it from executors of the new driver, or from the gateway.
"""

from __future__ import annotations

import re
import secrets
from typing import Any

import structlog

from wallaroo.run.kubernetes.failures import call_failures, why_failed

_MARK_BYTES = 3

log = structlog.get_logger("wallaroo")


def mark() -> str:
    """A part of the names of one driver's executors, which no other driver's have."""
    return secrets.token_hex(_MARK_BYTES)


def remove_leftovers(api: Any, namespace: str, prefix: str) -> None:
    """Delete the executors of all earlier drivers, whose leases are lost.

    Args:
        api: A `kubernetes.client.CoreV1Api`.
        namespace: Namespace of the executors.
        prefix: What their names begin with, before the mark of their driver.
    """
    name = re.compile(rf"{re.escape(prefix)}-[0-9a-f]{{{2 * _MARK_BYTES}}}-exec-\d+")
    try:
        pods = api.list_namespaced_pod(namespace, label_selector="spark-role=executor").items
        for pod in pods:
            if name.fullmatch(pod.metadata.name):
                api.delete_namespaced_pod(pod.metadata.name, namespace)
    except call_failures() as error:  # such as one that has just gone
        log.warning("executors of an earlier driver may remain", reason=why_failed(error))
