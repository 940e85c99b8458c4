"""Whether a driver may do in its namespace what it is going to do, looked at before it tries."""

from __future__ import annotations

from typing import Any

from wallaroo.errors import RuntimeFailure

VERBS = ("get", "list", "watch", "create", "patch", "update", "delete", "deletecollection")
"""What Spark does with the pods of executors."""


def check_rights(api: Any, namespace: str) -> None:
    """Refuse to go on where pods cannot be managed: Spark would try without end and say little.

    Args:
        api: A `kubernetes.client.AuthorizationV1Api`.
        namespace: Where the executors are to run.

    Raises:
        RuntimeFailure: This process may not do all that is needed.
    """
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    missing = []
    for verb in VERBS:
        wanted = {"namespace": namespace, "verb": verb, "resource": "pods"}
        review = {"spec": {"resourceAttributes": wanted}}
        try:
            answer = api.create_self_subject_access_review(review)
        except (ApiException, HTTPError):
            return  # a cluster may keep even that to itself; what is missing shows later
        if not answer.status.allowed:
            missing.append(verb)
    if missing:
        msg = (
            f"the driver's service account may not {', '.join(missing)} pods in the namespace "
            f"{namespace}, and executors are pods: set rbac.create=true, or bind such a Role to it"
        )
        raise RuntimeFailure(msg)
