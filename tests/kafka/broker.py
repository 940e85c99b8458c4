"""Real brokers of Apache Kafka on free ports, which tests stop, kill and start again."""

from __future__ import annotations

import base64
import contextlib
import random
import signal
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from confluent_kafka import ElectionType, TopicPartition

from tests.helpers import PATIENCE_S, wait_until
from tests.kafka.artifacts import jars
from tests.kafka.brokers import Brokers
from tests.kafka.proxy import Proxy
from tests.kafka.security import PASSWORD, USER, Authority
from wallaroo.engine.spark.java import find_java

_PROPERTIES = """
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners={listeners}
advertised.listeners={advertised}
listener.security.protocol.map=DIRECT:PLAINTEXT,PROXIED:PLAINTEXT,SECURE:SASL_SSL,\
CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=DIRECT
listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location={keystore}
listener.name.secure.sasl.enabled.mechanisms=SCRAM-SHA-256,OAUTHBEARER
listener.name.secure.oauthbearer.sasl.jaas.config=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
listener.name.secure.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:{user}
log.dirs={directory}/data
auto.create.topics.enable=false
log.retention.ms=-1
min.insync.replicas={in_sync}
offsets.topic.num.partitions=1
offsets.topic.replication.factor={replication}
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor={replication}
transaction.state.log.min.isr={in_sync}
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms={session_ms}
broker.heartbeat.interval.ms=300
controller.quorum.fetch.timeout.ms=6000
controller.quorum.election.timeout.ms=3000
auto.leader.rebalance.enable=false
"""
_START_S = 240.0
"""Time for brokers to start, also on a busy machine."""
_PORTS = (20_000, 32_000)
"""Below those that the system gives to connections, which might be taken at the next start."""
_LISTENERS = ("DIRECT", "PROXIED", "SECURE")
_SOON_READY = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of Java for tests, which wait for the start."""
AS_INSTALLED = (
    *("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
"""Those of Kafka's own start script, for what is measured: without the second compiler, a broker
takes most of a core for 10,000 messages a second."""


class Node:
    """The process of one broker, which is a controller as well.

    Args:
        directory: Where its data and its log are.
        number: Its number, from 1 on.
        controllers: `HOST:PORT` of the controllers of all nodes.
        cluster: ID of the cluster.
        authority: Signs its certificate.
        options: Options of Java.
    """

    def __init__(
        self,
        directory: Path,
        number: int,
        controllers: Sequence[str],
        cluster: str,
        authority: Authority,
        options: Sequence[str],
    ) -> None:
        directory.mkdir(exist_ok=True)
        self._log = directory / "log.txt"
        self._java = [
            *(find_java(), *options),
            *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{jars()}/*"),
        ]
        places = dict(zip(_LISTENERS, free_addresses(len(_LISTENERS)), strict=True))
        self.address, self.secure = places["DIRECT"], places["SECURE"]
        self.proxy = Proxy(places["PROXIED"])
        self.proxied = f"127.0.0.1:{self.proxy.port}"
        keystore = directory / "keystore.pem"
        authority.issue(keystore)
        self._properties = directory / "server.properties"
        self._properties.write_text(
            _PROPERTIES.format(
                directory=directory,
                node=number,
                voters=",".join(f"{at}@{where}" for at, where in enumerate(controllers, 1)),
                listeners=_listed({**places, "CONTROLLER": controllers[number - 1]}),
                advertised=_listed({**places, "PROXIED": self.proxied}),
                keystore=keystore,
                user=USER,
                replication=len(controllers),
                in_sync=len(controllers) // 2 + 1,
                session_ms=1500 if len(controllers) == 1 else 5000,
            )
        )
        user = f"SCRAM-SHA-256=[name={USER},password={PASSWORD},iterations=4096]"
        tool = ["kafka.tools.StorageTool", "format", "-t", cluster, "--add-scram", user]
        self._formatting = subprocess.Popen(
            [*self._java, *tool, "-c", str(self._properties)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        if not self._log.exists():
            _, told = self._formatting.communicate(timeout=_START_S)
            assert self._formatting.returncode == 0, told.decode()
        with self._log.open("ab") as log:
            command = [*self._java, "kafka.Kafka", str(self._properties)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it."""
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:  # it waits for the other brokers
                self._process.kill()
                self._process.wait(PATIENCE_S)
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it, if it runs."""
        if self._process is not None:
            self._process.send_signal(number)

    @property
    def runs(self) -> bool:
        """Whether it was started and not stopped.

        Raises:
            AssertionError: It has ended on its own.
        """
        if self._process is None:
            return False
        ended = self._process.poll() is not None
        assert not ended, f"the broker ended: {self._log.read_text()[-2000:]}"
        return True


class Broker(Brokers):
    """One broker.

    Args:
        directory: Where its data and its log are.
        options: Options of Java.

    Raises:
        NotAvailable: Kafka cannot be fetched.
    """

    def __init__(self, directory: Path, options: Sequence[str] = _SOON_READY) -> None:
        self.authority = Authority(directory)
        self._node = Node(
            directory / "1", 1, free_addresses(1), _cluster_id(), self.authority, options
        )
        self.proxy, self.proxied, self.secure = (
            self._node.proxy,
            self._node.proxied,
            self._node.secure,
        )
        super().__init__(self._node.address)
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._node.start()
        self.connect()
        with _ended_on_failure(self.stop):
            wait_until(lambda: self._node.runs and self.answering(), "the broker", _START_S)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it."""
        self._node.stop(how)


class Cluster(Brokers):
    """Three brokers; each record is on all of them, and counts when it is on two.

    Args:
        directory: Where their data and their logs are.

    Raises:
        NotAvailable: Kafka cannot be fetched.
    """

    COUNT = 3

    def __init__(self, directory: Path) -> None:
        authority, cluster = Authority(directory), _cluster_id()
        controllers = free_addresses(self.COUNT)
        self.nodes = {
            number: Node(
                directory / str(number), number, controllers, cluster, authority, _SOON_READY
            )
            for number in range(1, self.COUNT + 1)
        }
        self.proxied = ",".join(node.proxied for node in self.nodes.values())
        super().__init__(",".join(node.address for node in self.nodes.values()), self.COUNT)
        self.start()

    def start(self) -> None:
        """Start those that do not run, and wait until all answer."""
        for node in self.nodes.values():
            if not node.runs:
                node.start()
        self.connect()
        with _ended_on_failure(self.stop):
            wait_until(self._all_answer, "the brokers", _START_S)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End all."""
        for node in self.nodes.values():
            node.stop(how)

    def close(self) -> None:
        """End all, and free their ports."""
        self.stop(signal.SIGKILL)
        for node in self.nodes.values():
            node.proxy.close()

    def leader(self, topic: str, partition: int = 0) -> int:
        """Number of the broker that leads a partition; -1 if none does, or it does not exist."""
        partitions = self.admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        return int(partitions[partition].leader) if partition in partitions else -1

    def existing(self, *topics: str) -> list[str]:
        """Those of *topics* that exist: brokers make their own for a first group or transaction."""
        known = self.admin.list_topics(timeout=PATIENCE_S).topics
        return [topic for topic in topics if topic in known]

    def elect_preferred(self, *topics: str) -> None:
        """Let the preferred brokers lead all partitions of *topics* again, once they can."""
        known = self.admin.list_topics(timeout=PATIENCE_S).topics
        wanted = [TopicPartition(name, at) for name in topics for at in known[name].partitions]

        def elected() -> bool:
            found = self.admin.elect_leaders(ElectionType.PREFERRED, wanted).result(PATIENCE_S)
            told = {error.name() for error in found.values() if error is not None}
            return told <= {"NO_ERROR", "ELECTION_NOT_NEEDED"}

        wait_until(elected, "the election")

    def cut(self, manner: str) -> None:
        """Let the network in front of all brokers be as `Proxy` has it."""
        for node in self.nodes.values():
            node.proxy.manner = manner

    def _all_answer(self) -> bool:
        return all(node.runs for node in self.nodes.values()) and self.answering() == self.COUNT


@contextlib.contextmanager
def _ended_on_failure(stop: Callable[[signal.Signals], None]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        stop(signal.SIGKILL)
        raise


_claims: list[socket.socket] = []
"""What keeps the ports of this process for it, also while no broker listens on them."""


def free_addresses(count: int) -> list[str]:
    """`HOST:PORT` of ports that nobody listens on, and that nobody else is given meanwhile."""
    chosen: list[str] = []
    while len(chosen) < count:
        port = random.randrange(*_PORTS)
        with contextlib.suppress(OSError):
            socket.create_server(("127.0.0.1", port)).close()
            chosen.append(_claimed(port))
    return chosen


def _claimed(port: int) -> str:
    """Reserve *port* for this process until it ends; returns its address.

    Raises:
        OSError: Another process, or this one, has reserved it.
    """
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0wallaroo-test-port-{port}")  # without a file, and gone with its process
    except OSError:
        claim.close()
        raise
    _claims.append(claim)
    return f"127.0.0.1:{port}"


def _listed(places: dict[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in places.items())


def _cluster_id() -> str:
    """An ID without hyphens: at its beginning, Kafka would take it for an option."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "w")
