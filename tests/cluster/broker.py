"""A broker of Apache Kafka in a pod, which admits clients by SASL over TLS; see `broker_pod.py`."""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives import serialization

from tests.cluster.harness import (
    CONTAINER_SECURITY,
    IMAGES,
    POD_SECURITY,
    TAG,
    Cluster,
    CommandFailedError,
    wait_for,
)
from tests.kafka.artifacts import jars

_PROGRAM = Path(__file__).with_name("broker_pod.py")


class Broker:
    """A broker, and what clients need to reach it.

    Args:
        cluster: Where it is.
        name: Name of its pod and of its Service.
        chart: The chart whose image it runs in.
    """

    USER = "shop"

    def __init__(self, cluster: Cluster, name: str, chart: str) -> None:
        self._cluster, self.name, self._chart = cluster, name, chart
        self.address = f"{name}:9092"
        self.password = f"password-{secrets.token_hex(8)}"
        self.authority = trustme.CA()

    def start(self) -> None:
        """Start it, without waiting until it answers.

        Raises:
            NotAvailable: Kafka cannot be fetched.
        """
        folder = jars()
        self._cluster.apply(*self._objects())
        self._cluster.kubectl(
            "wait", f"pod/{self.name}", "--for=jsonpath={.status.phase}=Running", "--timeout=120s"
        )
        self._cluster.kubectl("cp", "--retries=3", str(folder), f"{self.name}:/kafka/jars")
        self._cluster.kubectl("exec", self.name, "--", "touch", "/kafka/complete")

    def make(self, topic: str, partitions: int) -> None:
        """Make *topic*, as soon as the broker answers."""

        def made() -> bool:
            try:
                self._call("make", topic, str(partitions))
            except CommandFailedError as error:
                told.append(str(error))
                return False
            return True

        told: list[str] = []
        try:
            wait_for(f"topic {topic}", made)
        except AssertionError as error:
            log = self._cluster.logs(self.name)
            msg = f"{error}: {told[-1]}\n{log}"
            raise AssertionError(msg) from error

    def write(self, topic: str, first: int, count: int, seconds: float) -> None:
        """Write `lines(first, count)` evenly over *seconds*."""
        self._call("write", topic, str(first), str(count), str(seconds))

    @contextlib.contextmanager
    def writing(self, topic: str, first: int, count: int, seconds: float) -> Iterator[None]:
        """The same meanwhile; it is written in the end."""
        failures: list[BaseException] = []

        def write() -> None:
            try:
                self.write(topic, first, count, seconds)
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            thread.join()
        assert not failures, failures

    def read(self, topic: str) -> dict[str, list[str]]:
        """The committed records of *topic*: for each key the values in their order."""
        return dict(json.loads(self._call("read", topic)))

    def remove(self) -> None:
        """Remove it."""
        kinds = "pod,service,configmap,secret"
        self._cluster.kubectl("delete", kinds, self.name, "--ignore-not-found")

    def _call(self, *arguments: str) -> str:
        command = ("python3", "/program/broker_pod.py", *arguments)
        return self._cluster.kubectl("exec", self.name, "--", *command)

    def _objects(self) -> list[dict[str, Any]]:
        labels = {"broker": self.name}
        metadata = {"name": self.name, "labels": labels}
        secret = {"user": self.USER, "password": self.password, "broker.pem": self._identity()}
        mounts = {"program": "/program", "secret": "/secret", "kafka": "/kafka", "tmp": "/tmp"}
        return [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata,
                "data": {"broker_pod.py": _PROGRAM.read_text()},
            },
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": secret},
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": metadata,
                "spec": {
                    "selector": labels,
                    "ports": [{"name": "kafka", "port": 9092, "protocol": "TCP"}],
                },
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": {
                    "automountServiceAccountToken": False,
                    "terminationGracePeriodSeconds": 0,
                    "securityContext": POD_SECURITY,
                    "containers": [
                        {
                            "name": "broker",
                            "image": f"{IMAGES}/{self._chart}:{TAG}",
                            "command": ["python3", "/program/broker_pod.py", "serve", self.name],
                            "securityContext": CONTAINER_SECURITY,
                            "resources": {"requests": {"cpu": "200m", "memory": "384Mi"}},
                            "volumeMounts": [
                                {"name": volume, "mountPath": path}
                                for volume, path in mounts.items()
                            ],
                        }
                    ],
                    "volumes": [
                        {"name": "program", "configMap": {"name": self.name}},
                        {"name": "secret", "secret": {"secretName": self.name}},
                        {"name": "kafka", "emptyDir": {}},
                        {"name": "tmp", "emptyDir": {}},
                    ],
                },
            },
        ]

    def _identity(self) -> str:
        """Key and certificate of the broker; Kafka takes no other form of a key."""
        issued = self.authority.issue_cert(self.name)
        key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        chain = [one.bytes() for one in issued.cert_chain_pems]
        return b"".join([pem, *chain]).decode()
