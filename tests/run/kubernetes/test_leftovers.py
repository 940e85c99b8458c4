"""A driver that starts removes executors of those before it, and no other pods."""

from __future__ import annotations

from structlog.testing import capture_logs

from tests.run.kubernetes.kubernetes_api import Answer, KubernetesAPI, Query
from wallaroo.run.kubernetes.leftovers import mark, remove_leftovers

PODS = "/api/v1/namespaces/here/pods"


def test_executors_of_earlier_drivers_are_deleted() -> None:
    old = [f"votes-{mark()}-exec-1", f"votes-{mark()}-exec-12"]
    names = [*old, f"votes-other-{mark()}-exec-1", "votes-driver-0"]

    def pods(asked: Query) -> Answer:
        assert asked["labelSelector"] == "spark-role=executor"
        return 200, {"items": [{"metadata": {"name": name}} for name in names]}

    with KubernetesAPI() as api:
        api.answers[PODS] = pods
        for name in names:
            api.answers[f"{PODS}/{name}"] = lambda _: (200, {})
        remove_leftovers(api.client(), "here", "votes")
    assert api.deleted == [f"{PODS}/{name}" for name in old]


def test_a_refusal_is_said_and_no_reason_not_to_start() -> None:
    with KubernetesAPI() as api, capture_logs() as logs:
        api.answers[PODS] = lambda _: (403, {})
        remove_leftovers(api.client(), "here", "votes")
    assert [log["reason"] for log in logs] == ["403 Forbidden"]
