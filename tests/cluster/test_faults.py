"""What goes wrong on a cluster ends with the right results, and no hand on it."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest

from tests.cluster.harness import IMAGES, TAG, CommandFailedError, Peer, Release, wait_for
from tests.helpers import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

RATE = 1000
ENDLESS = 1_000_000
BURST = 6_000
"""Messages sent around each fault: enough to stream before, meanwhile and after."""


class Streaming:
    """Sends a burst, with a fault in the middle of it."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def __enter__(self) -> None:
        self._peer.settle()
        before = self._peer.progress()["sent"]
        self._peer.send(BURST, RATE)
        self._peer.wait_until_sent(before + BURST // 4)

    def __exit__(self, *_exc: object) -> None:
        if _exc[0] is None:
            result = self._peer.settle()
            print(f"longest time without an output: {result['longest_s']:.1f} s")


def test_outputs_wait_for_an_address_that_does_not_resolve(
    word_count: Release, word_peer: Peer
) -> None:
    word_count.install("--set", "outputs[0]=nowhere.invalid:7002,workers=2")
    word_count.wait_until_ready()
    word_peer.send(BURST, RATE)
    word_peer.wait_until_sent(BURST)
    wait_for("outputs that wait", lambda: word_count.status()["undelivered"])
    problem = word_count.problems()
    assert "sink" in problem
    assert "nowhere.invalid:7002: the name does not resolve" in problem
    assert "does not resolve" in word_count.cluster.logs(word_count.gateway)
    word_count.upgrade("--set", f"outputs[0]={word_peer.address}")
    assert word_peer.settle()["repeated"] == 0
    word_count.wait_until_ready()


def test_messages_wait_while_the_application_is_paused(
    word_count: Release, word_peer: Peer
) -> None:
    word_peer.settle()
    before = word_peer.progress()
    assert word_count.change("pause") == "paused\n"
    word_peer.send(BURST, RATE)
    word_peer.wait_until_sent(before["sent"] + BURST)
    wait_for("all messages to wait", lambda: word_count.status()["backlog"] == BURST)
    status = word_count.status()
    assert status["state"] == "paused"
    assert "paused" in word_count.status_table()
    driver = word_count.driver
    assert "\nwallaroo_paused 1.0\n" in word_count.cluster.http(driver, 7980, "metrics")
    word_count.delete_pods("gateway")
    wait_for("another gateway", lambda: not word_count.is_ready())
    word_count.wait_until_ready()
    assert word_count.status()["state"] == "paused"
    assert word_peer.progress()["received"] == before["received"]
    assert word_count.change("resume") == "resumed\n"
    assert word_peer.settle()["repeated"] == before["repeated"]
    assert word_count.status()["state"] == "running"


def test_the_dashboard_shows_the_history_of_a_key_from_the_gateways_log(
    word_count: Release, word_peer: Peer
) -> None:
    word_peer.settle()
    assert "word totals['u']" in word_count.history("u")


def test_an_executor_crashes(word_count: Release, word_peer: Peer) -> None:
    with Streaming(word_peer):
        word_count.crash("executor", "KubernetesExecutorBackend")
    wait_for("another executor", lambda: word_count.runs(2))


def test_an_executor_is_gone_without_a_word(word_count: Release, word_peer: Peer) -> None:
    with Streaming(word_peer):
        victim = word_count.pods("executor")[0]["metadata"]["name"]
        word_count.cluster.kubectl("delete", "pod", victim, "--grace-period=0", "--force")
    wait_for("another executor", lambda: word_count.runs(2))


def test_an_executor_is_evicted(word_count: Release, word_peer: Peer) -> None:
    with Streaming(word_peer):
        word_count.cluster.evict(word_count.pods("executor")[0]["metadata"]["name"])
    wait_for("another executor", lambda: word_count.runs(2))


def test_an_executor_is_killed_for_its_memory(word_count: Release, word_peer: Peer) -> None:
    with Streaming(word_peer):
        word_count.starve("executor")
    wait_for("another executor", lambda: word_count.runs(2))


def test_the_driver_crashes(word_count: Release, word_peer: Peer) -> None:
    with Streaming(word_peer):
        word_count.crash("driver", "wallaroo")
    word_count.wait_until_ready()


@pytest.mark.parametrize(
    ("part", "event", "logged"),
    [
        ("driver", "upgrade", "taken over"),
        ("driver", "deletion", "taken over"),
        ("gateway", "upgrade", "waiting to take over"),
        ("gateway", "deletion", "ready"),
    ],
)
def test_a_new_pod_takes_over_from_the_old_one(
    word_count: Release, word_peer: Peer, part: str, event: str, logged: str
) -> None:
    word_peer.settle()
    before = word_count.lives(part)
    word_peer.send(ENDLESS, RATE)
    if event == "upgrade":
        word_count.upgrade("--set-string", f"{part}.podAnnotations.turn=second")
    else:
        word_count.delete_pods(part)

    def is_over() -> bool:
        return word_count.is_ready() and word_count.lives(part) != before

    wait_for(f"the new {part} alone", is_over)
    (pod,) = word_count.lives(part)
    assert logged in word_count.cluster.logs(pod)
    word_peer.stop()
    result = word_peer.settle()
    print(f"longest time without an output: {result['longest_s']:.1f} s")
    assert word_count.runs(2)


def test_new_code_runs_beside_the_old(word_count: Release, word_peer: Peer) -> None:
    word_peer.settle()
    before = word_count.lives("gateway", "driver")
    word_count.upgrade("--set", f"shadow.image.tag={TAG}")

    def shadow_says() -> list[str]:
        with contextlib.suppress(CommandFailedError):  # its container is not there yet
            for pod in word_count.pods("shadow"):
                return word_count.cluster.logs(pod["metadata"]["name"]).splitlines()
        return []

    wait_for("a shadow that is up to date", lambda: "up to date" in "".join(shadow_says()))
    with Streaming(word_peer):
        assert not word_count.problems()
    assert all(" run again, " in line for line in shadow_says()), "something differs"
    ((_, restarts),) = word_count.lives("shadow").values()
    assert restarts == 0
    word_count.upgrade("--set", "shadow.image.tag=")
    wait_for("no shadow", lambda: not word_count.pods("shadow"))
    assert word_count.lives("gateway", "driver") == before


def test_the_gateway_crashes(word_count: Release, word_peer: Peer) -> None:
    with Streaming(word_peer):
        word_count.crash("gateway", "wallaroo")
    word_count.wait_until_ready()


def test_the_gateway_is_deleted_while_senders_are_connected(
    word_count: Release, word_peer: Peer
) -> None:
    connects = word_peer.progress()["connects"]
    with Streaming(word_peer):
        word_count.delete_pods("gateway")
    result = word_peer.progress()
    assert result["connects"] > connects
    assert result["repeated"] == 0, "a gateway that ends in good order has noted what it delivered"


def test_an_executor_that_waits_for_room_does_not_get_that_of_the_gateway(
    word_count: Release, word_peer: Peer
) -> None:
    wait_for("pods that stay", lambda: word_count.is_settled(2))  # others would give up room
    (driver,) = word_count.pods("driver")
    node, image = driver["spec"]["nodeName"], driver["spec"]["containers"][0]["image"]

    def waits() -> bool:
        return "cannot be scheduled" in word_count.problems()

    with word_count.cluster.filled(node, image, left=50):  # an executor needs 100, as the gateway
        word_count.upgrade("--set", "workers=3")
        wait_for("an executor without room", waits)
        before = word_count.lives("gateway")
        with Streaming(word_peer):
            word_count.delete_pods("gateway")
        word_count.wait_until_ready()
        assert word_count.lives("gateway") != before
        wait_for("an executor without room again", waits)
        assert "executors are withdrawn" in word_count.cluster.logs(driver["metadata"]["name"])
        old = {pod["metadata"]["name"] for pod in word_count.pods("executor")}
        word_count.crash("driver", "wallaroo")

        def replaced() -> bool:
            names = {pod["metadata"]["name"] for pod in word_count.pods("executor")}
            return len(names) == 3 and not names & old

        wait_for("the executors of the next driver, and no others", replaced)
    wait_for("a third executor", lambda: word_count.runs(3))
    word_count.upgrade("--set", "workers=2")
    wait_for("two executors", lambda: word_count.runs(2))


def test_all_pods_are_deleted_at_once(word_count: Release, word_peer: Peer) -> None:
    with Streaming(word_peer):
        word_count.delete_pods()
    word_count.wait_until_ready()
    wait_for("both executors", lambda: word_count.runs(2))


def test_an_upgrade_to_an_image_that_is_not_there_leaves_the_release_as_it_is(
    word_count: Release, word_peer: Peer
) -> None:
    before, connects = word_count.lives("gateway", "driver"), word_peer.progress()["connects"]
    with (
        Streaming(word_peer),
        pytest.raises(CommandFailedError, match="pre-upgrade hooks failed"),
    ):
        word_count.upgrade("--set", "image.tag=none,upgradeCheck.timeoutSeconds=20")
    assert word_count.lives("gateway", "driver") == before
    assert word_peer.progress()["connects"] == connects
    assert "the release runs as before the upgrade" in word_count.problems()
    word_count.upgrade()
    wait_for("the failed check being gone", lambda: not word_count.problems())
    assert word_count.lives("gateway", "driver") == before


def test_a_gateway_that_cannot_start_leaves_the_old_one_in_its_place(
    word_count: Release, word_peer: Peer
) -> None:
    before, connects = word_count.lives("gateway", "driver"), word_peer.progress()["connects"]
    unchecked = "upgradeCheck.enabled=false,image.tag=none"
    with Streaming(word_peer):
        word_count.upgrade("--set", unchecked)
        wait_for("the new pods' problem", lambda: "image.tag" in word_count.problems())
    assert before.items() <= word_count.lives("gateway", "driver").items()
    assert word_peer.progress()["connects"] == connects
    word_count.upgrade("--set", f"upgradeCheck.enabled=true,image.tag={TAG}")
    wait_for("the old pods alone", lambda: word_count.lives("gateway", "driver") == before)


def test_an_upgrade_whose_code_cannot_load_the_state_leaves_the_release_as_it_is(
    word_count: Release, word_peer: Peer
) -> None:
    code = (ROOT / "apps" / "word_count" / "application.py").read_text()
    migration = """
@wallaroo.migrate(WordTotals, from_version=1)
def migrated(fields):
    raise ValueError("no counts")
"""
    metadata = {"name": "changed-code"}
    word_count.cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"application.py": code + migration},
        }
    )
    volumes = [{"name": "code", "configMap": metadata}]
    mounts = [{"name": "code", "mountPath": "/app/application.py", "subPath": "application.py"}]
    before, connects = word_count.lives("gateway", "driver"), word_peer.progress()["connects"]
    with (
        Streaming(word_peer),
        pytest.raises(CommandFailedError, match="pre-upgrade hooks failed"),
    ):
        word_count.upgrade(
            f"--set-json=gateway.extraVolumes={json.dumps(volumes)}",
            f"--set-json=gateway.extraVolumeMounts={json.dumps(mounts)}",
        )
    assert word_count.lives("gateway", "driver") == before
    assert word_peer.progress()["connects"] == connects
    problems = word_count.problems()
    assert "the entity, of class application.WordTotals, cannot be loaded" in problems
    assert "no counts" in problems
    word_count.cluster.kubectl("delete", "configmap", "changed-code")
    word_count.upgrade()
    wait_for("the failed check being gone", lambda: not word_count.problems())
    assert word_count.lives("gateway", "driver") == before


def test_the_log_of_a_driver_has_no_errors_of_its_start(word_count: Release) -> None:
    assert "Uncaught exception" not in word_count.cluster.logs(word_count.driver)


def test_a_node_is_drained(word_count: Release, word_peer: Peer) -> None:
    assert word_count.cluster.select("poddisruptionbudgets", "app.kubernetes.io/component=executor")
    before = word_count.lives("gateway", "driver")
    with Streaming(word_peer):
        word_count.drain()
    word_count.wait_until_ready()
    after = word_count.lives("gateway", "driver")
    assert not before.items() & after.items()
    wait_for("both executors", lambda: word_count.runs(2))


def test_a_second_driver_finds_itself_fenced_out(word_count: Release, word_peer: Peer) -> None:
    cluster, before = word_count.cluster, word_count.lives("driver")
    (driver,) = cluster.select("deployments", "app.kubernetes.io/component=driver")
    template = driver["spec"]["template"]
    (container,) = template["spec"]["containers"]
    container["args"].remove("--take-over")
    second = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "second-driver", "labels": {"app": "second"}},
        "spec": {**template["spec"], "restartPolicy": "Never"},
    }
    with Streaming(word_peer):
        cluster.apply(second)

        def ended() -> dict[str, Any] | None:
            pod = cluster.get("pod", "second-driver")
            assert pod is not None
            states = [c["state"] for c in pod["status"].get("containerStatuses", [])]
            return next((s["terminated"] for s in states if "terminated" in s), None)

        told = wait_for("the end of the second driver", ended)
        assert told["exitCode"] == 1, json.dumps(told)
        assert "two drivers cannot run one application" in told["message"]
    cluster.kubectl("delete", "pod", "second-driver")
    assert word_count.lives("driver") == before


def test_partitions_change_in_an_upgrade_while_messages_stream(
    word_count: Release, word_peer: Peer
) -> None:
    with Streaming(word_peer):
        word_count.crash("driver", "wallaroo")  # an epoch may be left, to be ended first
        word_count.upgrade("--set", "partitions=8,repartition=true")
    word_count.wait_until_ready()
    status = word_count.status()
    assert (status["workers"]["partitions"], status["problems"]) == (8, [])


def test_a_release_continues_from_a_snapshot(word_count: Release, word_peer: Peer) -> None:
    """As the page says: made while it runs, and restored to other claims."""
    cluster = word_count.cluster
    page = (ROOT / "docs/kubernetes.md").read_text()
    (shown,) = (
        text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "restore" in text
    )
    image = f"{IMAGES}/word-count:{TAG}"
    for old, new in (
        ("localhost/market-spread:0.1.0", image),
        ("market-spread/monday", f"{word_count.fullname}/settled"),
    ):
        assert old in shown
        shown = shown.replace(old, new)
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "4Gi"}}}
    for name in ("backups", "journal-2", "state-2"):
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec}
        cluster.apply({**claim, "metadata": {"name": name}})
    word_count.upgrade("--set", "snapshots.claim=backups,snapshots.keep=1")

    with Streaming(word_peer):
        assert "running: position" in word_count.snapshot("running")
    assert "running: removed" in word_count.snapshot("settled")
    assert word_count.problems() == ""
    word_count.uninstall()
    wait_for("everything being gone", lambda: not word_count.left())
    cluster.kubectl("apply", "-f", "-", stdin=shown)
    cluster.wait_for_pod("restore")
    volumes = ",".join(f"storage.{one}.existingClaim={one}-2" for one in ("journal", "state"))
    word_count.install("--set", f"outputs[0]={word_peer.address},workers=2,partitions=8,{volumes}")
    word_count.wait_until_ready()
    with Streaming(word_peer):
        pass
    assert word_count.problems() == ""


def test_helm_test_with_outputs_of_ones_own(word_count: Release) -> None:
    said = word_count.test().split("\n")
    assert {"processed without errors", "OK"} <= set(said), "the log of the test's pod"


def test_uninstall_leaves_nothing(word_count: Release) -> None:
    word_count.uninstall()
    wait_for("everything being gone", lambda: not word_count.left())
