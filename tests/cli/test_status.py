"""What `wallaroo status` makes of what a cluster tells."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.run.kubernetes.kubernetes_api import KubernetesAPI
from wallaroo.cli.main import main

BASE = "/api/v1/namespaces/here"
GATEWAY = {
    "sources": [{"name": "Votes", "where": "0.0.0.0:7010", "accepted": 12345, "backlog": 45}],
    "sinks": [{"name": "Votes", "where": "results:7002", "problem": None}],
    "backlog": 45,
    "waited_s": 0.204,
    "undelivered": 3,
    "delivered": 12000,
    "set_aside": 0,
    "late": 1234,
}
DRIVER = {
    "application": "Votes",
    "state": "running",
    "partitions": 8,
    "chunk": {"number": 17, "age_s": 0.4},
    "publications_per_s": 1.5,
    "messages_per_s": 2500.0,
    "last_error": None,
}
RUNNING = {"ready": True, "restartCount": 0, "state": {"running": {}}}


def pod(component: str, **changes: Any) -> dict[str, Any]:
    """A pod that runs; *changes* are of its status."""
    name = changes.pop("name", f"votes-{component}-0")
    container = {"name": component, "image": "x", "imageID": "y", **RUNNING}
    container |= changes.pop("container", {})
    ready = str(container["ready"])
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": ready}],
        "containerStatuses": [container],
        **changes,
    }
    return {
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/component": component},
            "creationTimestamp": _ago(90),
        },
        "spec": {
            "nodeName": "node1",
            "containers": [
                {"name": component, "ports": [{"name": "health", "containerPort": 7980}]}
            ],
        },
        "status": status,
    }


def warning(name: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{name}.1"},
        "involvedObject": {"name": name},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": _ago(1),
    }


def _ago(seconds: float) -> str:
    at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


class Votes:
    """A cluster with the release `votes`."""

    def __init__(self, api: KubernetesAPI, config: Path) -> None:
        self.pods = [pod("driver"), pod("gateway"), pod("executor", name="votes-1-exec-1")]
        self.events: list[dict[str, Any]] = []
        self.requested = {"workers": "2", "partitions": "8"}
        self.autoscaling: dict[str, Any] | None = None
        workers = {
            "metadata": {
                "name": "votes-workers",
                "labels": {"app.kubernetes.io/component": "workers"},
            },
        }
        api.answers = {
            f"{BASE}/pods": lambda asked: self._listed(asked, self.pods),
            f"{BASE}/configmaps": lambda asked: self._listed(
                asked, [{**workers, "data": self.requested}]
            ),
            f"{BASE}/events": lambda _: (200, {"items": self.events}),
            f"{BASE}/pods/votes-gateway-0:7980/proxy/status": lambda _: (200, GATEWAY),
            f"{BASE}/pods/votes-driver-0:7980/proxy/status": lambda _: (
                200,
                {**DRIVER, "autoscaling": self.autoscaling},
            ),
        }
        cluster = {"name": "c", "cluster": {"server": api.url}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "here"}}
        config.write_text(
            json.dumps(
                {
                    "clusters": [cluster],
                    "contexts": [context],
                    "users": [{"name": "u", "user": {}}],
                    "current-context": "c",
                }
            )
        )
        self.api = api

    def status(self, *options: str, release: str = "votes") -> tuple[int, str]:
        done = CliRunner().invoke(main, ["status", release, *options])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output

    def problems(self) -> list[str]:
        code, said = self.status("--output", "json")
        assert code == 0, said
        return list(json.loads(said)["problems"])

    @staticmethod
    def _listed(asked: Any, items: list[dict[str, Any]]) -> tuple[int, Any]:
        ours = "app.kubernetes.io/instance=votes" in asked["labelSelector"].split(",")
        return 200, {"items": items if ours else []}


@pytest.fixture
def votes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Votes]:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with KubernetesAPI() as api:
        yield Votes(api, tmp_path / "config")


def test_the_table_tells_all_of_a_release_that_is_well(votes: Votes) -> None:
    code, said = votes.status()
    assert code == 0
    assert [line.rstrip() for line in said.splitlines()] == [
        "votes in here: running",
        "",
        "POD              COMPONENT  STATE    READY  RESTARTS  AGE",
        "votes-gateway-0  gateway    Running  yes           0  2m",
        "votes-driver-0   driver     Running  yes           0  2m",
        "votes-1-exec-1   executor   Running  yes           0  2m",
        "",
        "workers   1 running, 2 wanted, 8 at most",
        "published up to chunk 17, 1.5 publications and 2,500 messages per second",
        "lag       0.2 s, 45 messages waiting",
        "outputs   12,000 delivered, 3 waiting for their receivers",
        "late      1,234 messages came after their windows had closed",
        "",
        "SOURCE  ADDRESS       ACCEPTED  BACKLOG",
        "Votes   0.0.0.0:7010    12,345       45",
        "",
        "no problems",
    ]


def test_the_table_tells_why_there_are_so_many_workers(votes: Votes) -> None:
    votes.requested = {
        "min": "1",
        "max": "4",
        "current": "3",
        "mode": "report",
        "upAfterSeconds": "30",
        "downAfterSeconds": "300",
        "partitions": "8",
    }
    reason = "1,500 messages/s need 1.66 cores: 5 workers of 0.5 at 70% (at most 4)"
    votes.autoscaling = {"min": 1, "max": 4, "mode": "report", "reason": reason, "problem": None}
    _, said = votes.status()
    assert "workers   1 running, 3 wanted, 8 at most" in said
    assert f"scaling   1 to 4, reported only: {reason}\n" in said
    votes.autoscaling |= {"mode": "scale", "problem": "the ConfigMap cannot be written: 403"}
    _, said = votes.status()
    assert f"scaling   1 to 4: {reason}\n" in said
    assert "does not follow the load: the ConfigMap cannot be written: 403" in said


def test_the_table_tells_for_what_sources_wait(
    votes: Votes, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = "waits for table 'Names' (12 records left)"
    monkeypatch.setitem(GATEWAY, "sources", [{**GATEWAY["sources"][0], "waits": waits}])  # type: ignore[index]
    _, said = votes.status()
    assert f"45\nVotes {waits}\n\nno problems" in said


def test_the_json_tells_all_that_the_table_tells(votes: Votes) -> None:
    code, said = votes.status("--output", "json", "--namespace", "here", "--context", "c")
    assert code == 0
    told = json.loads(said)
    assert told["workers"] == {"wanted": 2, "running": 1, "partitions": 8}
    assert (told["state"], told["chunk"]["number"], told["lag_s"]) == ("running", 17, 0.204)
    assert told["sources"] == GATEWAY["sources"]
    assert told["problems"] == []


@pytest.mark.parametrize(
    ("component", "changes", "problem"),
    [
        (
            "gateway",
            {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image x:1"}}},
            "ErrImagePull: no such image x:1; check image.repository, image.tag and "
            "imagePullSecrets",
        ),
        (
            "driver",
            {
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                "lastState": {"terminated": {"exitCode": 2, "message": "partitions are 8\n"}},
            },
            "driver ended with exit code 2: partitions are 8",
        ),
        (
            "executor",
            {"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}},
            "executor ended with exit code 137: OOMKilled; give it more memory: resources, or "
            "executor.memoryOverhead",
        ),
        (
            "upgrade-check",
            {"state": {"terminated": {"exitCode": 2, "message": "--in has 1 address\n"}}},
            "upgrade-check ended with exit code 2: --in has 1 address; the release runs as before "
            "the upgrade",
        ),
    ],
)
def test_a_container_that_does_not_run_tells_why_and_what_to_do(
    votes: Votes, component: str, changes: dict[str, Any], problem: str
) -> None:
    others = [p for p in votes.pods if p["metadata"]["name"] != f"votes-{component}-0"]
    votes.pods = [*others, pod(component, container={"ready": False, **changes})]
    assert votes.problems() == [f"votes-{component}-0: {problem}"]


def test_a_pod_that_no_node_takes_tells_the_schedulers_reason(votes: Votes) -> None:
    unplaced = pod("executor", name="votes-1-exec-2", phase="Pending", containerStatuses=None)
    unplaced["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "message": "0/1 nodes: insufficient cpu"}
    ]
    votes.pods.append(unplaced)
    assert votes.problems() == ["votes-1-exec-2: cannot be scheduled: 0/1 nodes: insufficient cpu"]


def test_a_volume_that_cannot_be_mounted_is_told_from_the_events(votes: Votes) -> None:
    waiting = {"ready": False, "state": {"waiting": {"reason": "ContainerCreating"}}}
    votes.pods[1] = pod("gateway", phase="Pending", container=waiting)
    votes.events = [warning("votes-gateway-0", "FailedMount", "no volume pv1.")]
    assert votes.problems() == [
        "votes-gateway-0: no volume pv1; check the volume's claim and storage class"
    ]


def test_a_missing_pod_is_told_with_what_its_controller_says(votes: Votes) -> None:
    votes.pods = votes.pods[1:]
    votes.events = [warning("votes-driver", "FailedCreate", "exceeded quota")]
    (problem,) = votes.problems()
    assert problem.startswith("there is no pod of the driver: exceeded quota; check quotas")
    assert "the driver does not respond" in votes.status()[1]


def test_what_gateway_and_driver_tell_of_problems_is_among_them(votes: Votes) -> None:
    sink = {"name": "Votes", "where": "results:7002", "problem": "Connection refused"}
    gateway = GATEWAY | {"sinks": [sink], "set_aside": 4}
    stalled = "45 messages waiting, nothing published for 42 s"
    driver = DRIVER | {"last_error": "KeyError: 'x' in count (votes.py:9)", "problem": stalled}
    path = BASE + "/pods/votes-{}-0:7980/proxy/status"
    votes.api.answers[path.format("gateway")] = lambda _: (200, gateway)
    votes.api.answers[path.format("driver")] = lambda _: (200, driver)
    assert votes.problems() == [
        "sink Votes at results:7002: Connection refused",
        "4 messages could not be processed: see the driver's log",
        f"{stalled} (the driver is running): see its log",
        "last error: KeyError: 'x' in count (votes.py:9)",
    ]


def test_messages_that_wait_too_long_are_a_problem(votes: Votes) -> None:
    path = f"{BASE}/pods/votes-gateway-0:7980/proxy/status"
    votes.api.answers[path] = lambda _: (200, GATEWAY | {"waited_s": 291.4})
    (problem,) = votes.problems()
    assert "the oldest message has waited for 291 s, more than 60 s (--max-lag)" in problem
    assert "no problems" in votes.status("--max-lag", "300")[1]
    votes.api.answers[path] = lambda _: (200, GATEWAY | {"waited_s": 12.0})
    assert votes.problems() == []
    assert "more than 10 s (--max-lag)" in votes.status("--max-lag", "10")[1]


def test_a_pause_is_told_in_place_of_what_it_leads_to(votes: Votes) -> None:
    path = BASE + "/pods/votes-{}-0:7980/proxy/status"
    votes.api.answers[path.format("driver")] = lambda _: (200, DRIVER | {"state": "paused"})
    assert votes.problems() == []
    assert votes.status()[1].splitlines()[0].endswith(": paused")
    votes.api.answers[path.format("gateway")] = lambda _: (200, GATEWAY | {"waited_s": 291.4})
    assert votes.problems() == [
        "the application is paused, and the oldest message has waited for 291 s: resume it on its "
        "dashboard or with wallaroo resume"
    ]


def test_a_release_that_is_not_there_is_told(votes: Votes) -> None:
    code, said = votes.status(release="other")
    assert code == 2
    assert "there is no Wallaroo release other in the namespace here: see helm list" in said


def test_no_leave_to_look_is_told(votes: Votes) -> None:
    votes.api.answers[f"{BASE}/pods"] = lambda _: (403, {"message": "no"})
    code, said = votes.status()
    assert code == 1
    assert "cannot be read: 403 Forbidden" in said


def test_no_cluster_is_told(votes: Votes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    code, said = votes.status()
    assert code == 2
    assert "set KUBECONFIG, or use --context" in said


def test_of_two_drivers_the_one_that_runs_is_asked(votes: Votes) -> None:
    def answer(state: str, _asked: Any) -> tuple[int, Any]:
        return 200, {**DRIVER, "state": state}

    (gateway,) = (p for p in votes.pods if p["metadata"]["name"] == "votes-gateway-0")
    votes.pods = [gateway]
    for name, state in (("votes-driver-a", "handed over"), ("votes-driver-b", "running")):
        votes.pods.append(pod("driver", name=name))
        status = f"{BASE}/pods/{name}:7980/proxy/status"
        votes.api.answers[status] = partial(answer, state)
    for _ in range(2):
        code, said = votes.status("--output", "json")
        assert (code, json.loads(said)["state"]) == (0, "running")
        votes.pods.reverse()
    votes.pods = [gateway, pod("driver", name="votes-driver-a")]
    assert json.loads(votes.status("--output", "json")[1])["state"] == "handed over"
