"""The wanted number of workers follows a ConfigMap, whatever becomes of the watch."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers import PATIENCE_S
from tests.run.kubernetes.kubernetes_api import DROP, END, KubernetesAPI
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.run.kubernetes import worker_count
from wallaroo.run.kubernetes.scaling_rule import ScalingSettings
from wallaroo.run.kubernetes.worker_count import WorkerCount

PATH = "/api/v1/namespaces/here/configmaps"


def config_map(workers: str | None, version: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "words-workers", "resourceVersion": version},
        "data": {} if workers is None else {"workers": workers},
    }


def listed(*items: dict[str, Any], version: str) -> tuple[int, dict[str, Any]]:
    return 200, {
        "apiVersion": "v1",
        "kind": "ConfigMapList",
        "metadata": {"resourceVersion": version},
        "items": list(items),
    }


BOUNDS = {"min": "2", "max": "6", "mode": "scale", "upAfterSeconds": "30"} | {
    "downAfterSeconds": "300"
}
SCALING = ScalingSettings(minimum=2, maximum=6, up_after_s=30.0, down_after_s=300.0)


def bounded(version: str, **changes: str) -> dict[str, Any]:
    return {**config_map(None, version), "data": BOUNDS | changes}


def modified(workers: str | None, version: str) -> dict[str, Any]:
    return {"type": "MODIFIED", "object": config_map(workers, version)}


class Following:
    """What a driver does with it: reads it, then follows it."""

    def __init__(self, api: KubernetesAPI) -> None:
        self.numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.worker_count = WorkerCount(api.client(), "here", "words-workers", self.numbers.put)

    def next(self) -> int:
        return self.numbers.get(timeout=PATIENCE_S)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesAPI]:
    monkeypatch.setattr(worker_count, "_FIRST_PAUSE_S", 0.01)
    with KubernetesAPI() as server:
        server.answers[PATH] = lambda _: listed(config_map("2", "5"), version="7")
        yield server


def test_a_change_is_told_once_and_from_what_was_read_on(api: KubernetesAPI) -> None:
    following = Following(api)
    assert following.worker_count.read() == 2
    following.worker_count.start()
    asked = api.asked_to_watch()
    assert asked["fieldSelector"] == "metadata.name=words-workers"
    assert asked["resourceVersion"] == "7"
    for workers, version in [("2", "8"), ("4", "9"), ("4", "10"), ("1", "11")]:
        api.watch.put(modified(workers, version))
    assert [following.next(), following.next()] == [4, 1]
    following.worker_count.stop()


@pytest.mark.parametrize("end", [DROP, END], ids=["broken off", "ended"])
def test_a_watch_that_ends_goes_on_behind_what_it_has_seen(api: KubernetesAPI, end: object) -> None:
    following = Following(api)
    following.worker_count.read()
    following.worker_count.start()
    api.asked_to_watch()
    api.watch.put(modified("3", "9"))
    assert following.next() == 3
    api.watch.put(end)
    assert api.asked_to_watch()["resourceVersion"] == "9"
    api.watch.put(modified("5", "12"))
    assert following.next() == 5
    following.worker_count.stop()


def test_where_the_cluster_has_forgotten_the_version_the_number_is_read_anew(
    api: KubernetesAPI,
) -> None:
    following = Following(api)
    following.worker_count.read()
    following.worker_count.start()
    api.asked_to_watch()
    api.answers[PATH] = lambda _: listed(config_map("6", "90"), version="91")
    gone = {
        "kind": "Status",
        "code": 410,
        "reason": "Expired",
        "message": "too old",
        "metadata": {},
    }
    api.watch.put({"type": "ERROR", "object": gone})
    api.watch.put(END)
    assert following.next() == 6
    following.worker_count.stop()


def test_what_is_no_number_changes_nothing(api: KubernetesAPI) -> None:
    following = Following(api)
    following.worker_count.read()
    following.worker_count.start()
    api.asked_to_watch()
    for workers in ("0", "many", None, "3"):
        api.watch.put(modified(workers, "20"))
    assert following.next() == 3
    following.worker_count.stop()


def test_no_leave_to_read_it_is_told_with_what_to_do(api: KubernetesAPI) -> None:
    api.answers[PATH] = lambda _: (403, {"message": "forbidden"})
    with pytest.raises(RuntimeFailure, match=r"words-workers cannot be read: 403 .*get, list and"):
        Following(api).worker_count.read()


@pytest.mark.parametrize("items", [[], [config_map(None, "5")], [config_map("0", "5")]])
def test_a_missing_number_is_told_with_what_to_do(
    api: KubernetesAPI, items: list[dict[str, Any]]
) -> None:
    api.answers[PATH] = lambda _: listed(*items, version="7")
    with pytest.raises(UsageError, match="set 'workers' to a number of 1 or more"):
        Following(api).worker_count.read()


def test_bounds_are_kept_and_changes_of_them_followed(api: KubernetesAPI) -> None:
    api.answers[PATH] = lambda _: listed(bounded("5"), version="7")
    following = Following(api)
    count = following.worker_count
    assert (count.read(), count.scaling) == (2, SCALING)
    count.start()
    api.asked_to_watch()
    for changed in (
        bounded("8", current="5"),
        bounded("9", current="5", max="4", mode="report"),
        config_map("3", "10"),
        bounded("11"),  # goes on with what was there
        bounded("12", current="4"),
    ):
        api.watch.put({"type": "MODIFIED", "object": changed})
    assert [following.next() for _ in range(4)] == [5, 4, 3, 4]
    assert count.scaling == SCALING
    count.stop()


def test_a_number_is_written_beside_the_bounds(api: KubernetesAPI) -> None:
    posted: list[Any] = []

    def patched(asked: Any) -> tuple[int, Any]:
        posted.append(json.loads(asked["posted"]))
        return 200, bounded("6", current="5")

    api.answers[f"{PATH}/words-workers"] = patched
    Following(api).worker_count.write(5)
    assert posted == [{"data": {"current": "5"}}]
    api.answers[f"{PATH}/words-workers"] = lambda _: (403, {"message": "forbidden"})
    with pytest.raises(RuntimeFailure, match=r"words-workers cannot be written: 403 .*to patch it"):
        Following(api).worker_count.write(6)
