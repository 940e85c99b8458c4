"""A driver that may not manage pods says so before Spark tries."""

from __future__ import annotations

import json

import pytest

from tests.run.kubernetes.kubernetes_api import KubernetesAPI, Query
from wallaroo.errors import RuntimeFailure
from wallaroo.run.kubernetes.permissions import VERBS, check_permissions

PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.mark.parametrize(
    ("allowed", "told"),
    [
        (set(VERBS), None),
        (set(VERBS) - {"create", "delete"}, "may not create, delete pods in the namespace here"),
    ],
)
def test_each_right_is_asked_for(allowed: set[str], told: str | None) -> None:
    with KubernetesAPI() as api:

        def review(asked: Query) -> tuple[int, object]:
            wanted = json.loads(asked["posted"])["spec"]["resourceAttributes"]
            good = (wanted["namespace"], wanted["resource"]) == ("here", "pods")
            return 201, {"spec": {}, "status": {"allowed": good and wanted["verb"] in allowed}}

        api.answers[PATH] = review
        if told is None:
            check_permissions(api.authorization(), "here")
            return
        with pytest.raises(RuntimeFailure, match=told):
            check_permissions(api.authorization(), "here")


def test_a_cluster_that_does_not_tell_is_not_in_the_way() -> None:
    with KubernetesAPI() as api:
        check_permissions(api.authorization(), "here")
