"""A check of the permissions that a driver needs, before it uses them."""

from __future__ import annotations

from typing import Any

from wallaroo.errors import RuntimeFailure
from wallaroo.run.kubernetes.failures import call_failures

VERBS = ("get", "list", "watch", "create", "delete", "deletecollection")
"""What Spark does with executors' pods."""


def check_permissions(api: Any, namespace: str) -> None:
    """Refuse to start if pods cannot be managed: Spark would retry forever without a clear error.

    Args:
        api: A `kubernetes.client.AuthorizationV1Api`.
        namespace: Namespace of the executors.

    Raises:
        RuntimeFailure: A permission is missing.
    """
    missing = []
    for verb in VERBS:
        attributes = {"namespace": namespace, "verb": verb, "resource": "pods"}
        review = {"spec": {"resourceAttributes": attributes}}
        try:
            answer = api.create_self_subject_access_review(review)
        except call_failures():
            return  # a cluster may forbid even this review; missing permissions show up later
        if not answer.status.allowed:
            missing.append(verb)
    if missing:
        msg = (
            f"the driver's ServiceAccount may not {', '.join(missing)} pods in the namespace "
            f"{namespace}, which it needs for executors: set rbac.create=true, or bind a Role that "
            "allows it"
        )
        raise RuntimeFailure(msg)
