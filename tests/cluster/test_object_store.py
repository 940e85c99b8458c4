"""State on an object store: driver and executors come back anywhere, and nothing is lost."""

from __future__ import annotations

import functools
import socket
from collections.abc import Iterator

import pytest

from tests.cluster.harness import PARTS, Cluster, Peer, Release, wait_for
from tests.object_store.server import BUCKET, KEY, SECRET, NotAvailable, Server

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.skipif("s3" not in PARTS, reason="the image was not built --with s3"),
]

ENDLESS = 10**9


@pytest.fixture(scope="module")
def store(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server in this process's network, which must be that of a node."""
    (node, *_) = cluster.select("nodes")
    (host,) = [a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP"]
    try:
        socket.create_server((host, 0)).close()
        server = Server(tmp_path_factory.mktemp("objects"), host)
    except (OSError, NotAvailable) as reason:
        pytest.skip(f"no store that pods would reach: {reason}")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def release(cluster: Cluster, helms: list[str], store: Server) -> Release:
    """Market Spread with its state there, not installed yet."""
    secret = "store"
    keys = (f"AWS_ACCESS_KEY_ID={KEY}", f"AWS_SECRET_ACCESS_KEY={SECRET}")
    literals = [f"--from-literal={key}" for key in keys]
    cluster.kubectl("create", "secret", "generic", secret, *literals)
    state = {
        "uri": f"s3a://{BUCKET}/market-spread",
        "endpoint": f"http://{store.address}",
        "credentialsSecret": secret,
    }
    values = {"partitions": 4, "workers": 2, "storage.state": state}
    return Release(cluster, helms[-1], "stored-market-spread", "market-spread", values)


@pytest.fixture(scope="module")
def peer(release: Release) -> Iterator[Peer]:
    with Peer(release) as peer:
        yield peer


def test_driver_and_executor_are_deleted_while_messages_stream(
    release: Release, peer: Peer
) -> None:
    release.install("--set", f"outputs[0]={peer.address}", "--wait", "--timeout", "240s")
    wait_for("two workers", functools.partial(release.runs, 2))
    claims = release.cluster.select(
        "persistentvolumeclaims", f"app.kubernetes.io/instance={release.name}"
    )
    assert [claim["metadata"]["name"] for claim in claims] == ["stored-market-spread-journal"]
    peer.send(ENDLESS, rate=3000)
    peer.wait_until_sent(20_000)
    for component in ("executor", "driver"):
        name = release.pods(component)[0]["metadata"]["name"]
        release.cluster.kubectl("delete", "pod", name, "--wait=false")
        peer.wait_until_sent(peer.progress()["sent"] + 20_000)
        wait_for("two workers", functools.partial(release.runs, 2))
    peer.stop()
    result = peer.settle()
    assert (result["connects"], result["repeated"]) == (2, 0)
    told = "".join(release.cluster.logs(pod["metadata"]["name"]) for pod in release.pods())
    assert SECRET not in told


def test_a_release_continues_from_a_snapshot_on_the_store(
    release: Release, peer: Peer, store: Server
) -> None:
    """It is made while messages stream, and restored to another folder with a new journal."""
    cluster, state = release.cluster, f"s3a://{BUCKET}/restored"
    release.upgrade("--set", f"snapshots.uri=s3a://{BUCKET}/backups")
    peer.send(ENDLESS, rate=1000)
    assert "running: position" in release.snapshot("running")
    peer.stop()
    peer.settle()
    assert ", 0 messages waiting, 0 outputs undelivered" in release.snapshot("settled")
    container = release.pods("driver")[0]["spec"]["containers"][0]
    release.uninstall()
    wait_for("everything being gone", lambda: not release.left())
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "4Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec}
    snapshot = f"s3a://{BUCKET}/backups/{release.fullname}/settled"
    restoring = {
        "name": "restore",
        "image": container["image"],
        "args": ["restore", snapshot, f"--state-dir={state}", "--log-dir=/journal"],
        "env": [one for one in container["env"] if one["name"].startswith("AWS_")],
        "volumeMounts": [{"name": "journal", "mountPath": "/journal"}],
    }
    user = {"runAsNonRoot": True, "runAsUser": 185, "runAsGroup": 185, "fsGroup": 185}
    volume = {"name": "journal", "persistentVolumeClaim": {"claimName": "journal-3"}}
    pod = {"restartPolicy": "Never", "securityContext": user, "volumes": [volume]}
    cluster.apply(
        {**claim, "metadata": {"name": "journal-3"}},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "restore"},
            "spec": {**pod, "containers": [restoring]},
        },
    )
    cluster.wait_for_pod("restore")
    options = f"outputs[0]={peer.address},storage.journal.existingClaim=journal-3"
    release.install("--set", f"{options},storage.state.uri={state}", "--wait", "--timeout", "240s")
    peer.send(ENDLESS, rate=1000)
    peer.wait_until_sent(peer.progress()["sent"] + 5000)
    peer.stop()
    peer.settle()
    assert store.has("restored/owner")


def test_uninstall_leaves_the_state(release: Release, store: Server) -> None:
    release.uninstall()
    wait_for("everything being gone", lambda: not release.left())
    assert store.has("market-spread/checkpoint/metadata")
