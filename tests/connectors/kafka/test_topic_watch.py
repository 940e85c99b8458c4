"""Which topics of a source there are, as brokers come to say."""

from __future__ import annotations

import re
from typing import Any

import pytest
from structlog.testing import capture_logs

from wallaroo.connectors.kafka import topic_watch
from wallaroo.connectors.kafka.client import FoundTopic
from wallaroo.connectors.kafka.positions import Partition, Positions
from wallaroo.connectors.kafka.problems import KafkaProblem, UnknownTopic
from wallaroo.connectors.kafka.topic import Topic, TopicSettings
from wallaroo.connectors.kafka.topic_watch import TopicWatch

PATTERN = Topic("o.*", "a:1", pattern=re.compile("o.*"))
LIST = Topic("orders", "a:1", others=("returns",), create=TopicSettings())


class Brokers:
    """Answers as a client of a source's topics does."""

    def __init__(self, topic: Topic, *names: str) -> None:
        self.topic = topic
        self.topics = {name: (f"id of {name}", [0]) for name in names}
        self.hidden: set[str] = set()
        self.created: list[str] = []

    def names(self) -> list[str]:
        return [name for name in self.topics if name not in self.hidden]

    def ask(self, names: list[str]) -> dict[str, None]:
        return dict.fromkeys(names)

    def answered(self, name: str, _asked: None, create: Any = None) -> FoundTopic:
        if name in self.hidden:
            msg = f"no READ on topic {name}"
            raise KafkaProblem(msg)
        if name not in self.topics and create is None:
            msg = f"topic {name} does not exist"
            raise UnknownTopic(msg)
        if name not in self.topics:
            self.created.append(name)
            self.topics[name] = ("created", [0])
        return FoundTopic(*self.topics[name])


def watching(brokers: Brokers, *known: str) -> TopicWatch:
    client: Any = brokers
    watch = TopicWatch(client)
    watch.find(known)
    return watch


def positions(*names: str) -> Positions:
    ids = {name: f"id of {name}" for name in names}
    return Positions(ids, {Partition(name, 0): 3 for name in names})


def test_a_topic_of_a_pattern_that_may_not_be_seen_any_more_is_not_taken_for_deleted() -> None:
    brokers = Brokers(PATTERN, "orders", "offers", "__offsets", "returns")
    watch = watching(brokers)
    assert watch.partitions == [Partition("offers", 0), Partition("orders", 0)]
    brokers.hidden.add("orders")
    with pytest.raises(KafkaProblem, match="no READ on topic orders"):
        watch.has_changed(["orders", "offers"])


def test_the_position_in_a_deleted_topic_of_a_pattern_is_kept_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, ends = positions("orders", "offers"), {Partition("orders", 0): 5}
    watch = watching(Brokers(PATTERN, "offers"), "orders", "offers")
    with capture_logs() as logs:
        assert watch.note_deleted(before, ends) == set()
        assert watch.note_deleted(before, ends) == set()
    assert [(log["event"], log["topic"], log["unread"]) for log in logs] == [
        ("topic deleted", "orders", 2)
    ]
    monkeypatch.setattr(topic_watch, "_FORGET_S", -1.0)
    assert watch.note_deleted(before, ends) == {"orders"}


def test_a_topic_that_is_no_longer_the_same_is_told_by_name() -> None:
    brokers = Brokers(PATTERN, "orders", "offers")
    watch = watching(brokers)
    brokers.topics["offers"] = "another", [0]
    watch.make_sure({"orders"})
    with pytest.raises(KafkaProblem, match="topic offers at a:1 was deleted and recreated; "):
        watch.make_sure({"orders", "offers"})
    del brokers.topics["offers"]
    with pytest.raises(KafkaProblem, match="topic offers at a:1 was deleted; "):
        watch.has_changed([])


def test_a_listed_topic_is_created_unless_it_was_read_before() -> None:
    brokers = Brokers(LIST)
    watch = watching(brokers, "returns")
    assert brokers.created == ["orders"]
    assert watch.missing == "topic returns does not exist"
    assert watch.ids == {"orders": "created"}


def test_a_list_of_which_no_topic_exists_cannot_be_read() -> None:
    with pytest.raises(KafkaProblem, match="topic orders does not exist; topic returns does not"):
        watching(Brokers(LIST), "orders", "returns")


def test_more_topics_and_partitions_are_a_change_and_missing_ones_are_not() -> None:
    brokers = Brokers(LIST, "orders")
    watch = watching(brokers, "orders", "returns")
    assert not watch.has_changed(["orders", "returns"])
    brokers.topics["orders"] = "id of orders", [0, 1]
    assert watch.has_changed(["orders", "returns"])
    brokers.topics["returns"] = "id of returns", [0]
    assert watch.has_changed(["orders", "returns"])
    assert watch.missing is None
