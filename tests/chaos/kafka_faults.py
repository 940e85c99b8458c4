"""The faults around topics: brokers, their network, and the steps of source and sink."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable

from tests.chaos.faults import COMMON, killing_at
from tests.chaos.groups import Fault, Group
from tests.chaos.kafka_system import PARTITIONS, KafkaSystem
from tests.chaos.machine_faults import LONG_STOPS
from tests.chaos.seams import SEAMS
from tests.chaos.system import GO_ON, STOP, System
from tests.chaos.turn import FILES_WITH_TOPICS, TOPIC_SINKS, TOPIC_SOURCES, WITH_TOPICS
from tests.kafka.artifacts import NotAvailable, jars

AWAY_S = 3.0
"""How long a broker is away."""
LONG_S = 12.0
"""How long something stands still: longer than transactions may be open."""
SOURCE_PLACES = ("kafka-source-before-submit", "kafka-source-after-submit")
SINK_PLACES = (
    "kafka-sink-after-begin",
    "kafka-sink-after-flush",
    "kafka-sink-before-commit",
    "kafka-sink-after-commit",
)
_COORDINATORS = ("__consumer_offsets", "__transaction_state")
_EXISTING = (
    *("kill a worker", "kill the gateway", "kill the driver", "kill Spark's Java"),
    *("kill everything at once", "stop the workers for 3 s", "stop the gateway for 3 s"),
    *("kill at log-before-write", "kill at log-after-write", "kill at log-after-sync"),
    "kill at outbox-after-publish",
    *("disk full for the gateway", "clock stepped backwards", "torn last write of the log"),
)
_EXISTING_AT_SEAMS = (
    *("kill the first stage", "kill at chunks-before-publish"),
    "kill the gateway while an epoch is committed",
)
_KafkaFault = Callable[[KafkaSystem, random.Random], bool]


def _on_topics(fault: _KafkaFault) -> Fault:
    """*fault* as one of any system."""

    def inject(system: System, chance: random.Random) -> bool:
        assert isinstance(system, KafkaSystem)
        return fault(system, chance)

    return inject


def _ending(how: signal.Signals, chosen: Callable[[KafkaSystem, random.Random], int]) -> Fault:
    """The broker that is *chosen* is ended, and started again."""

    def end(system: KafkaSystem, chance: random.Random) -> bool:
        number = chosen(system, chance)
        if number in system.brokers.nodes:
            system.brokers.nodes[number].stop(how)
            time.sleep(AWAY_S)
            system.brokers.start()
        return number in system.brokers.nodes

    return _on_topics(end)


def _any(system: KafkaSystem, chance: random.Random) -> int:
    return chance.choice([*system.brokers.nodes])


def _leader(system: KafkaSystem, chance: random.Random) -> int:
    return system.brokers.leader(chance.choice(system.topics), chance.randrange(PARTITIONS))


def _coordinator(system: KafkaSystem, chance: random.Random) -> int:
    existing = system.brokers.existing(*_COORDINATORS)
    return system.brokers.leader(chance.choice(existing)) if existing else -1


def _kill_all(system: KafkaSystem, chance: random.Random) -> bool:
    system.brokers.stop(signal.SIGKILL)
    time.sleep(chance.uniform(0.0, AWAY_S))
    system.brokers.start()
    return True


def _move_leaders(system: KafkaSystem, _chance: random.Random) -> bool:
    """Back to those that are to lead, which is none of those that were ended before."""
    topics = [*system.topics, *system.brokers.existing(*_COORDINATORS)]
    number = system.brokers.leader(topics[0])
    if number not in system.brokers.nodes:
        return False
    system.brokers.nodes[number].stop()
    system.brokers.start()
    system.brokers.elect_preferred(*topics)
    return True


def _stop_broker(system: KafkaSystem, chance: random.Random) -> bool:
    number = _leader(system, chance)
    if number in system.brokers.nodes:
        system.brokers.nodes[number].signal(STOP)
        time.sleep(LONG_S)
        system.brokers.nodes[number].signal(GO_ON)
    return number in system.brokers.nodes


def _cut(seconds: float, *manners: str) -> Fault:
    """The network to all brokers is as *manners* say, one after the other."""

    def cut(system: KafkaSystem, _chance: random.Random) -> bool:
        for manner in manners:
            system.brokers.cut(manner)
            time.sleep(seconds)
        system.brokers.cut("open")
        return True

    return _on_topics(cut)


def _cut_one(system: KafkaSystem, chance: random.Random) -> bool:
    proxy = system.brokers.nodes[_any(system, chance)].proxy
    proxy.manner = chance.choice(["hole", "refused", "slow"])
    time.sleep(LONG_S)
    proxy.manner = "open"
    return True


def _zombie_at(place: str) -> Fault:
    """The gateway stands still at *place*, and wakes when its transaction is over."""

    def stop(system: System, _chance: random.Random) -> bool:
        reached = system.reach(place, number=STOP)
        time.sleep(LONG_S if reached else 0.0)
        system.signal(GO_ON, *system.processes("gateway"))
        return reached

    return stop


def _recreate(which: str) -> Fault:
    def recreate(system: KafkaSystem, _chance: random.Random) -> bool:
        system.recreate(getattr(system, which))
        return True

    return _on_topics(recreate)


def _lack() -> str | None:
    try:
        jars()
    except NotAvailable as reason:
        return str(reason)
    return None


_APPLICATIONS = frozenset(FILES_WITH_TOPICS)
BROKERS = Group(
    {
        "kill a broker": _ending(signal.SIGKILL, _any),
        "kill the broker that leads a partition": _ending(signal.SIGKILL, _leader),
        "kill the broker that coordinates": _ending(signal.SIGKILL, _coordinator),
        "end a broker in good order": _ending(signal.SIGTERM, _any),
        "kill all brokers": _on_topics(_kill_all),
        "move the leaders": _on_topics(_move_leaders),
        "stop the broker that leads a partition for 12 s": _on_topics(_stop_broker),
        "network to the brokers swallows for 12 s": _cut(LONG_S, "hole"),
        "network to the brokers swallows, then resets": _cut(LONG_S, "hole", "refused"),
        "network to the brokers resets for 3 s": _cut(AWAY_S, "refused"),
        "network to the brokers with 20 kB/s for 12 s": _cut(LONG_S, "slow"),
        "network to one broker fails for 12 s": _on_topics(_cut_one),
    },
    applications=_APPLICATIONS,
    shapes=WITH_TOPICS,
    lacks=_lack,
)
SOURCES = Group(
    {
        **{f"kill at {place}": killing_at(place) for place in SOURCE_PLACES},
        "recreate the topic of the source": _recreate("read"),
    },
    applications=_APPLICATIONS,
    shapes=TOPIC_SOURCES,
    lacks=_lack,
)
SINKS = Group(
    {
        **{f"kill at {place}": killing_at(place) for place in SINK_PLACES},
        **{f"stop the gateway at {place} for 12 s": _zombie_at(place) for place in SINK_PLACES},
        "recreate the topic of the sink": _recreate("written"),
    },
    applications=_APPLICATIONS,
    shapes=TOPIC_SINKS,
    lacks=_lack,
)
PROCESSES = Group(
    {
        **{name: COMMON.faults[name] for name in _EXISTING},
        "stop the gateway for 20 s": LONG_STOPS.faults["stop the gateway for 20 s"],
    },
    applications=_APPLICATIONS,
    shapes=WITH_TOPICS,
    lacks=_lack,
)
AT_SEAMS = Group(
    {name: SEAMS.faults[name] for name in _EXISTING_AT_SEAMS},
    applications=_APPLICATIONS,
    shapes=WITH_TOPICS,
    lacks=_lack,
)
IN_USER_CODE = Group(
    {(name := "kill at worker-in-user-code"): COMMON.faults[name]},
    applications=frozenset({"counting"}),
    shapes=WITH_TOPICS,
    lacks=_lack,
)
WITH_KAFKA = (BROKERS, SOURCES, SINKS, PROCESSES, IN_USER_CODE, AT_SEAMS)
"""All for systems with topics."""
