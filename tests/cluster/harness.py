"""What tests on a cluster share: kubectl, helm, a namespace of their own, and a peer in it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import yaml

from tests.helpers import ROOT, wait_until

IMAGES = os.environ.get("WALLAROO_TEST_IMAGES", "localhost")
"""Where the cluster finds the images: a registry's address, without the images' names."""
TAG = os.environ.get("WALLAROO_TEST_TAG", "0.1.0")
"""Tag of the images."""
PARTS = os.environ.get("WALLAROO_TEST_PARTS", "").split()
"""What the image of Market Spread was built with: values of `wallaroo build --with`."""
PATIENCE_S = 420.0
"""How long to wait for what must happen before a test fails."""
_PAUSES_S = 0.2, 2.0
"""Between looks, each of which slows down the cluster."""
_EVENTS = 40
"""Events of the namespace that an error quotes, at most."""
_LINES = "--tail=12"
"""Lines of each container that an error quotes, at most."""
_INSTANCE = "app.kubernetes.io/instance"

_SOON = {"periodSeconds": 1}
SMALL: Mapping[str, Any] = {
    "gateway": {
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "readinessProbe": _SOON,
    },
    "driver": {
        "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
        "startupProbe": {"periodSeconds": 1, "failureThreshold": 240},
        "readinessProbe": _SOON,
    },
    "executor": {"cpuRequest": "100m", "memory": "512m", "memoryOverhead": "512m"},
    "shadow": {"resources": {"requests": {"cpu": "50m", "memory": "128Mi"}}},
    "storage": {"journal": {"size": "4Gi"}, "state": {"size": "1Gi"}},
}
"""Values that let four workers run beside each other on a small node, and tell of them soon."""

POD_SECURITY: Mapping[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": 185,
    "fsGroup": 185,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}

_KILL = """
import os, pathlib, signal, sys
for process in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        line = (process / "cmdline").read_bytes()
    except OSError:
        continue
    if int(process.name) not in (1, os.getpid()) and sys.argv[1].encode() in line:
        os.kill(int(process.name), signal.SIGKILL)
"""

_HISTORY = """
import pathlib, sys, urllib.request
token = pathlib.Path("/etc/wallaroo/dashboard/token").read_text().strip()
url = "http://127.0.0.1:4040/history?key=" + sys.argv[1]
asked = urllib.request.Request(url, b"", {"Authorization": "Bearer " + token})
print(urllib.request.urlopen(asked).read().decode())
"""

_STARVE = """
import os, pathlib, signal
for process in pathlib.Path("/proc").glob("[0-9]*"):
    if int(process.name) not in (1, os.getpid()):
        (process / "oom_score_adj").write_text("1000")
for _ in range(64):
    if os.fork() == 0:
        held = b"x" * (64 << 20)
        signal.pause()
signal.pause()
"""
"""Has the kernel choose what was there before: each of those that eat is small beside it."""

Found = TypeVar("Found")


class CommandFailedError(Exception):
    """A command ended with another exit code than 0; the message is what it said."""


def run(command: Sequence[str], stdin: str | None = None, timeout_s: float = 300.0) -> str:
    """What *command* prints.

    Raises:
        CommandFailedError: It failed.
    """
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, timeout=timeout_s
    )
    if done.returncode:
        msg = f"{' '.join(command[:4])} ended with {done.returncode}: {done.stderr or done.stdout}"
        raise CommandFailedError(msg)
    return done.stdout


def wait_for(what: str, look: Callable[[], Found | None], seconds: float = PATIENCE_S) -> Found:
    """What *look* finds, soon after it finds something true."""
    return wait_until(look, what, seconds, _PAUSES_S)


class Cluster:
    """The cluster of kubectl's current context, and a namespace in it.

    Args:
        namespace: The namespace, which is there.
    """

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints."""
        return run(["kubectl", "-n", self.namespace, *arguments], stdin)

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """An object, None if there is none."""
        told = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        return json.loads(told) if told else None

    def select(self, kind: str, selector: str = "") -> list[dict[str, Any]]:
        """The objects of a kind."""
        told = self.kubectl("get", kind, "-o", "json", "-l", selector)
        return list(json.loads(told)["items"])

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Make or change *objects*."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def http(self, pod: str, port: int, path: str) -> str:
        """What a pod answers, through the API server."""
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        return self.kubectl("get", "--raw", f"{pods}/{pod}:{port}/proxy/{path}")

    def service(self, name: str, port: str, path: str) -> str:
        """What a Service answers."""
        services = f"/api/v1/namespaces/{self.namespace}/services"
        return self.kubectl("get", "--raw", f"{services}/{name}:{port}/proxy/{path}")

    def wait_for_pod(self, name: str) -> None:
        """Wait until the containers of a pod have ended, successfully, and remove it."""

        def is_done() -> bool:
            pod = self.get("pod", name)
            assert pod is not None
            assert pod["status"]["phase"] != "Failed", self.kubectl("logs", name)
            return bool(pod["status"]["phase"] == "Succeeded")

        wait_for(f"the end of {name}", is_done)
        self.kubectl("delete", "pod", name)

    def evict(self, pod: str) -> None:
        """Have a pod leave, as a drain of its node does."""
        version = "v1" if "policy/v1" in self.kubectl("api-versions").split() else "v1beta1"
        eviction = {
            "apiVersion": f"policy/{version}",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": self.namespace},
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        self.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))

    def drain(self, node: str, selector: str) -> None:
        """Empty *node* of the pods of *selector*, and open it again."""
        options = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
        try:
            self.kubectl("drain", node, f"--pod-selector={selector}", *options)
        finally:
            self.kubectl("uncordon", node)

    @contextlib.contextmanager
    def filled(self, node: str, image: str, left: int) -> Iterator[None]:
        """Meanwhile, pods on *node* request all of its CPU but *left* thousandths of one."""
        found = self.get("node", node)
        assert found is not None
        free = _millis(found["status"]["allocatable"])
        there = self.kubectl(
            "get", "pods", "-A", "-o=json", f"--field-selector=spec.nodeName={node}"
        )
        for pod in json.loads(there)["items"]:
            if pod["status"]["phase"] in {"Pending", "Running"}:
                containers = pod["spec"]["containers"]
                free -= sum(_millis(c.get("resources", {}).get("requests", {})) for c in containers)
        filler = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "filler"},
            "spec": {
                "nodeName": node,
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 0,
                "securityContext": POD_SECURITY,
                "containers": [
                    {
                        "name": "filler",
                        "image": image,
                        "command": ["python3", "-c", "import signal; signal.pause()"],
                        "resources": {"requests": {"cpu": f"{free - left}m"}},
                        "securityContext": CONTAINER_SECURITY,
                    }
                ],
            },
        }
        self.apply(filler)
        try:
            yield
        finally:
            self.kubectl("delete", "pod", "filler")

    @contextlib.contextmanager
    def ending(self, pod: str, reason: str) -> Iterator[None]:
        """*pod* has to end meanwhile, for *reason*; it may be gone at once then."""
        ended = f"jsonpath={{.status.containerStatuses[0].state.terminated.reason}}={reason}"
        command = ["kubectl", "-n", self.namespace, "wait", f"pod/{pod}", f"--for={ended}"]
        with subprocess.Popen(
            [*command, "--timeout=120s"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as watch:
            yield
            told, _ = watch.communicate()
            assert watch.returncode == 0, told.decode()

    def logs(self, pod: str, *options: str) -> str:
        """What a pod has said."""
        return self.kubectl("logs", pod, *options)


class Release:
    """A release of a chart of this repository.

    Args:
        cluster: Where it is.
        helm: The helm command to use.
        name: Its name.
        chart: Its chart.
        values: Values besides those that make it small.
    """

    def __init__(
        self,
        cluster: Cluster,
        helm: str,
        name: str,
        chart: str,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.chart = chart
        self.fullname = name if chart in name else f"{name}-{chart}"
        self._helm = helm
        image = {"repository": f"{IMAGES}/{chart}", "tag": TAG}
        self._values: dict[str, Any] = {**SMALL, "image": image, **(values or {})}

    def install(self, *options: str) -> None:
        """Install it."""
        self._call("install", self.name, str(ROOT / "helm" / self.chart), *self._given(), *options)

    def upgrade(self, *options: str) -> None:
        """Change it, with the values that it has."""
        chart = str(ROOT / "helm" / self.chart)
        self._call("upgrade", self.name, chart, "--reuse-values", *options)

    def snapshot(self, name: str) -> str:
        """Make a snapshot, as `kubectl create job --from` does, which knows no v1beta1."""
        made_from = self.cluster.get("cronjob", f"{self.fullname}-snapshots")
        assert made_from is not None
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
        self.cluster.apply({**job, "spec": made_from["spec"]["jobTemplate"]["spec"]})
        kubectl = self.cluster.kubectl
        kubectl("wait", "--for=condition=complete", "--timeout=240s", f"job/{name}")
        said = kubectl("logs", f"job/{name}")
        kubectl("delete", "job", name)
        return said

    def uninstall(self) -> None:
        """Remove it, without waiting for its pods to end."""
        self._call("uninstall", self.name)

    def test(self) -> str:
        """Run its tests; what helm and they say."""
        return self._call("test", self.name, "--logs")

    def status(self) -> dict[str, Any]:
        """What `wallaroo status` tells, as a whole."""
        told = run([*self._status(), "--output", "json"])
        return dict(json.loads(told))

    def status_table(self) -> str:
        """What `wallaroo status` shows."""
        return run(self._status())

    def problems(self) -> str:
        """All that is wrong with it."""
        return "\n".join(self.status()["problems"])

    def pods(self, component: str = "") -> list[dict[str, Any]]:
        """Its pods that are not on their way out."""
        pods = self.cluster.select("pods", self._selector(component))
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def delete_pods(self, component: str = "") -> None:
        """Have its pods end in good order, without waiting for that."""
        self.cluster.kubectl("delete", "pods", "-l", self._selector(component), "--wait=false")

    def lives(self, *components: str) -> dict[str, tuple[str, int]]:
        """For each pod of *components* which one it is, and how often it has been restarted."""
        return {
            pod["metadata"]["name"]: (
                pod["metadata"]["uid"],
                sum(c["restartCount"] for c in pod["status"].get("containerStatuses", [])),
            )
            for component in components
            for pod in self.pods(component)
        }

    @property
    def driver(self) -> str:
        """The name of the driver's pod; of the ready one, if there is another."""
        return self._pod("driver")

    @property
    def gateway(self) -> str:
        """The same of the gateway."""
        return self._pod("gateway")

    def _pod(self, component: str) -> str:
        pods = sorted(self.pods(component), key=_is_ready)
        return str(pods[-1]["metadata"]["name"]) if pods else "none"

    def change(self, action: str) -> str:
        """Have the driver `pause` or `resume`; what the command says."""
        command = ("wallaroo", action, "127.0.0.1:4040")
        token = ("--dashboard-token-file", "/etc/wallaroo/dashboard/token")
        return self.cluster.kubectl("exec", self.driver, "--", *command, *token)

    def history(self, key: str) -> str:
        """The history of a key, as the dashboard has it from the gateway."""
        command = ("python3", "-c", _HISTORY, key)
        answer = json.loads(self.cluster.kubectl("exec", self.driver, "--", *command))
        return str(answer["text"])

    def is_ready(self) -> bool:
        """Whether gateway and driver are ready."""
        pods = [*self.pods("gateway"), *self.pods("driver")]
        return len(pods) == 2 and all(map(_is_ready, pods))

    def is_settled(self, workers: int) -> bool:
        """Whether it is ready with *workers* executors, and none of its pods is on its way out."""
        pods = self.cluster.select("pods", self._selector())
        ending = [pod for pod in pods if "deletionTimestamp" in pod["metadata"]]
        return self.is_ready() and not ending and len(self.pods("executor")) == workers

    def wait_until_ready(self) -> None:
        """Wait for gateway and driver."""
        wait_for(f"{self.name} being ready", self.is_ready)

    def crash(self, component: str, command: str) -> None:
        """Kill the processes of a pod of *component* that have *command* in their command line."""
        pod = self.pods(component)[0]["metadata"]["name"]
        try:
            self.cluster.kubectl("exec", pod, "--", "python3", "-c", _KILL, command)
        except CommandFailedError as error:
            if "ended with 137" not in str(error):  # that is with its container, once it has killed
                raise

    def starve(self, component: str) -> None:
        """Have the kernel kill a pod of *component*, for it uses more memory than it may."""
        pod = self.pods(component)[0]["metadata"]["name"]
        with (
            self.cluster.ending(pod, "OOMKilled"),
            contextlib.suppress(CommandFailedError),  # it ends with the pod
        ):
            self.cluster.kubectl("exec", pod, "--", "python3", "-c", _STARVE)

    def drain(self) -> None:
        """Drain the driver's node of it."""
        (driver,) = self.pods("driver")
        self.cluster.drain(driver["spec"]["nodeName"], self._selector())

    def runs(self, workers: int) -> bool:
        """Whether *workers* executors take tasks, as the driver tells."""
        try:
            told = self.cluster.http(self.driver, 7980, "status")
        except CommandFailedError:  # there is no driver just now
            return False
        return bool(json.loads(told)["workers"]["running"] == workers)

    def left(self) -> list[str]:
        """All objects of it that there are."""
        kinds = (
            "pods,services,deployments,configmaps,secrets,serviceaccounts,roles,"
            "rolebindings,persistentvolumeclaims,networkpolicies,poddisruptionbudgets"
        )
        told = self.cluster.kubectl("get", kinds, "-o", "name", "-l", f"{_INSTANCE}={self.name}")
        return told.split()

    def story(self) -> str:
        """The release's pods, status, and the last log lines of each container and its last run."""
        told = [self.cluster.kubectl("get", "pods", "-o", "wide")]
        with contextlib.suppress(CommandFailedError):  # the driver is not there
            told.append(self.status_table())
        for pod in self.cluster.select("pods", self._selector()):
            name, spec = pod["metadata"]["name"], pod["spec"]
            for container in [*spec.get("initContainers", []), *spec["containers"]]:
                for options in ([], ["--previous"]):
                    with contextlib.suppress(CommandFailedError):  # it has not run yet
                        lines = self.cluster.logs(name, "-c", container["name"], _LINES, *options)
                        told += [f"{name} {container['name']} {' '.join(options)}", lines]
        return "\n".join(told)

    def _selector(self, component: str = "") -> str:
        selector = f"{_INSTANCE}={self.name}"
        return f"{selector},app.kubernetes.io/component={component}" if component else selector

    def _given(self) -> list[str]:
        return [f"--set-json={key}={json.dumps(value)}" for key, value in self._values.items()]

    def _status(self) -> list[str]:
        namespace = self.cluster.namespace
        return [sys.executable, "-m", "wallaroo", "status", self.name, "-n", namespace]

    def _call(self, *arguments: str) -> str:
        """What helm prints; its error says besides what became of the pods."""
        try:
            return run([self._helm, *arguments, "-n", self.cluster.namespace])
        except CommandFailedError as error:
            shown = [self.cluster.kubectl("get", "pods", "-o", "wide")]
            shown += [self.cluster.kubectl("get", "persistentvolumes,persistentvolumeclaims")]
            # not by the last time, which those of the scheduler do not have
            events = self.cluster.kubectl("get", "events", "--sort-by=.metadata.creationTimestamp")
            shown += events.splitlines()[-_EVENTS:]
            msg = "\n".join([str(error), *shown])
            raise CommandFailedError(msg) from error


class Peer:
    """The sender and receiver of a release, and a context manager; see `peer.py`.

    Args:
        release: The release.
    """

    PORT, HTTP = 7002, 8080

    def __init__(self, release: Release) -> None:
        self._release = release
        self._cluster = release.cluster
        self.name = f"{release.fullname}-peer"
        self.address = f"{self.name}:{self.PORT}"

    def start(self) -> None:
        """Start it; returns when it answers."""
        settings = {
            "status": f"http://{self._release.fullname}-gateway:7980/status",
            "host": f"{self._release.fullname}-sources",
            "port": self.PORT,
            "http": self.HTTP,
            "seed": 7,
        }
        program = (Path(__file__).parent / "peer.py").read_text()
        labels = {"peer-of": self._release.name}
        self._cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": self.name, "labels": labels},
                "data": {"peer.py": program},
            },
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": self.name, "labels": labels},
                "spec": {
                    "selector": labels,
                    "ports": [{"name": "outputs", "port": self.PORT, "protocol": "TCP"}],
                },
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": self.name, "labels": labels},
                "spec": {
                    "automountServiceAccountToken": False,
                    "terminationGracePeriodSeconds": 0,
                    "securityContext": POD_SECURITY,
                    "containers": [
                        {
                            "name": "peer",
                            "image": f"{IMAGES}/{self._release.chart}:{TAG}",
                            "command": ["python3", "/peer/peer.py", json.dumps(settings)],
                            "securityContext": CONTAINER_SECURITY,
                            "volumeMounts": [{"name": "program", "mountPath": "/peer"}],
                        }
                    ],
                    "volumes": [{"name": "program", "configMap": {"name": self.name}}],
                },
            },
        )
        wait_for("the peer", self._answers)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.remove()

    def send(self, messages: int, rate: float) -> None:
        """Send so many messages more, *rate* a second."""
        self._ask(f"send?messages={messages}&rate={rate}")

    def stop(self) -> None:
        """Send no more."""
        self._ask("stop")

    def progress(self) -> dict[str, Any]:
        """How it stands."""
        return self._ask("progress")

    def wait_until_sent(self, count: int) -> None:
        """Wait until *count* messages are sent in all."""
        wait_for(f"message {count:,}", lambda: self.progress()["sent"] >= count)

    def settle(self) -> dict[str, Any]:
        """How it stands when all is sent and all that is due has come, and is right."""

        def settled() -> dict[str, Any] | None:
            told = self.progress()
            assert not told["wrong"], f"outputs that are not due: {told['examples']}"
            done = not told["sending"] and told["received"] == told["due"]
            return told if done else None

        try:
            return wait_for("all outputs", settled)
        except AssertionError as error:
            msg = f"{error}: {self.progress()}"
            raise AssertionError(msg) from error

    def remove(self) -> None:
        """Remove it."""
        kinds = "pod,service,configmap"
        self._cluster.kubectl("delete", kinds, self.name, "--ignore-not-found")

    def _answers(self) -> bool:
        try:
            self.progress()
        except (CommandFailedError, ValueError):
            return False
        return True

    def _ask(self, path: str) -> dict[str, Any]:
        return dict(json.loads(self._cluster.http(self.name, self.HTTP, path)))


def _millis(resources: Mapping[str, str]) -> int:
    """The CPU in *resources*, in thousandths of one."""
    cpu = resources.get("cpu", "0")
    return int(cpu[:-1]) if cpu.endswith("m") else round(float(cpu) * 1000)


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
