"""The topics of a source at the brokers: which there are, and whether they are still the same."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Container, Mapping

import structlog

from wallaroo.connectors.kafka.client import Asked, FoundTopic, TopicClient
from wallaroo.connectors.kafka.positions import Partition, Positions
from wallaroo.connectors.kafka.problems import KafkaProblem, UnknownTopic

_SAME_S = 0.25
"""Seconds in which no topic is deleted, recreated and filled again up to where it was read."""
_FORGET_S = 3600.0
"""Seconds after which a deleted topic of a pattern is forgotten: brokers that have just started may
not know their topics yet."""

log = structlog.get_logger("wallaroo.gateway")


class TopicWatch:
    """Looks for the topics of a source.

    Args:
        client: Asks for them.
    """

    def __init__(self, client: TopicClient) -> None:
        self._client, self._topic = client, client.topic
        self.found: dict[str, FoundTopic] = {}
        """Those that were there at the last look, by name."""
        self.missing: str | None = None
        """Which of those with given names were not, in words."""
        self._sure: dict[str, float] = {}
        """When a topic was last known to be the right one, by name."""
        self._asked: dict[str, Asked] = {}
        """Questions for topics that were not answered yet, and when they were asked."""
        self._asked_at = 0.0
        self._deleted: dict[str, float] = {}
        """When topics that match the pattern were first found to be gone, by name."""

    @property
    def ids(self) -> dict[str, str]:
        """IDs of the topics that were found, by name."""
        return {name: topic.id for name, topic in self.found.items()}

    @property
    def partitions(self) -> list[Partition]:
        """Their partitions."""
        return [
            Partition(name, at) for name, topic in self.found.items() for at in topic.partitions
        ]

    def find(self, known: Collection[str]) -> None:
        """Find the topics, and create those that have never been read if the source is to.

        Args:
            known: Names of topics that were read before.

        Raises:
            KafkaProblem: There is none of those with given names, or no broker answers.
        """
        self._sure, self._asked = {}, {}
        self.found, self.missing = self._look(known)
        if self.missing is not None and not self.found:
            raise KafkaProblem(self.missing)

    def has_changed(self, known: Collection[str]) -> bool:
        """Look again; returns whether there are more topics or partitions.

        Raises:
            KafkaProblem: A topic is no longer the same, or no broker answers.
        """
        before, (now, missing) = self.found, self._look(known)
        for name in before:
            self._compare(name, now.get(name))
        self.found, self.missing = now, missing
        return now != before

    def make_sure(self, names: Container[str | None]) -> None:
        """Look whether records of the topics called *names* come from those that were found.

        librdkafka continues with the next offset if a topic was recreated while it had no
        connection, or fetched nothing. As long as records come in, the brokers are asked early
        enough that nothing waits for their answers.

        Raises:
            KafkaProblem: They do not, or no broker answers.
        """
        now = time.monotonic()

        def unsure(seconds: float) -> list[str]:
            sure = {name: self._sure.get(name, -math.inf) for name in self.found if name in names}
            return [name for name, at in sure.items() if now - at >= seconds]

        if self._asked and (all(one.done() for one in self._asked.values()) or unsure(_SAME_S)):
            asked, self._asked = self._asked, {}
            self._answered(asked, self._asked_at)
        if late := unsure(_SAME_S):
            self._answered(self._client.ask(late))
        elif not self._asked and (soon := unsure(_SAME_S / 2)):
            self._asked, self._asked_at = self._client.ask(soon), now

    def note_deleted(self, positions: Positions, ends: Mapping[Partition, int]) -> set[str]:
        """Note topics of a pattern that are gone; returns names of those that may be forgotten.

        Args:
            positions: How far they were read.
            ends: Where their partitions ended, as far as is known.
        """
        if self._topic.pattern is None:
            return set()
        ids, now = self.ids, time.monotonic()
        gone = {name for name, topic_id in positions.ids.items() if ids.get(name) != topic_id}
        for name in sorted(gone - self._deleted.keys()):
            unread = sum(
                max(0, ends.get(at, 0) - offset)
                for at, offset in positions.offsets.items()
                if at.topic == name
            )
            log.warning(
                "topic deleted",
                topic=name,
                brokers=self._topic.brokers,
                unread=unread,
                effect="the source reads the other topics, and one that is recreated from its "
                "beginning",
            )
        self._deleted = {name: self._deleted.get(name, now) for name in gone - ids.keys()}
        return {name for name, since in self._deleted.items() if now - since > _FORGET_S}

    def _look(self, known: Collection[str]) -> tuple[dict[str, FoundTopic], str | None]:
        """The topics that there are, by name, and which of those with given names are missing."""
        names: Collection[str] = self._topic.names
        if is_pattern := self._topic.pattern is not None:
            # the known ones by name: what the user may not see is missing in the list
            names = sorted(filter(self._topic.includes, {*self._client.names(), *known}))
        found: dict[str, FoundTopic] = {}
        missing: list[str] = []
        for name, asked in (self._client.ask(names) if names else {}).items():
            create = None if name in known else self._topic.create
            try:
                found[name] = self._client.answered(name, asked, create)
            except UnknownTopic as problem:
                missing += [] if is_pattern else [str(problem)]
        return found, "; ".join(missing) or None

    def _answered(self, asked: Mapping[str, Asked], at: float | None = None) -> None:
        """Note the answers to questions that were asked at a time, or now."""
        for name, one in asked.items():
            topic: FoundTopic | None
            try:
                topic = self._client.answered(name, one)
            except UnknownTopic:
                topic = None
            self._compare(name, topic)
        self._sure |= dict.fromkeys(asked, time.monotonic() if at is None else at)

    def _compare(self, name: str, now: FoundTopic | None) -> None:
        """Compare a topic with the one that was found before.

        Raises:
            KafkaProblem: It is another one, or gone.
        """
        if now is None or now.id != self.found[name].id:
            what = "deleted" if now is None else "deleted and recreated"
            msg = f"{self._topic.one(name)} was {what}; the source opens its topics again"
            raise KafkaProblem(msg)
