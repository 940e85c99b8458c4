"""Commits of positions to a consumer group, for tools that show the lag; nothing reads them.

They go through an administrative client: a consumer that may not use the group would wait long for
a commit when it is closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import structlog

from wallaroo.connectors.kafka.client import Asked, TopicClient
from wallaroo.connectors.kafka.fetch import is_of_group
from wallaroo.connectors.kafka.positions import Partition

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

log = structlog.get_logger("wallaroo.gateway")


class GroupCommits:
    """Commits the positions of a source.

    Args:
        client: The client, which has the group.
        names: What the source is called in the log.
    """

    def __init__(self, client: TopicClient, names: Mapping[str, str]) -> None:
        self._client, self._names = client, names
        self._committed: Mapping[Partition, int] = {}
        self._asked: Asked | None = None
        """A commit that was not answered yet."""
        self._may_commit = True

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit *offsets* without waiting, unless they are, or a commit is in progress."""
        if self._asked is not None:
            if not self._asked.done():
                return
            self._note(self._asked)
        if offsets and offsets != self._committed and self._may_commit:
            self._committed = offsets
            self._asked = self._client.commit(offsets)

    def _note(self, asked: Asked) -> None:
        """Commit again if that has failed, but not if the brokers do not permit it."""
        self._asked = None
        if (error := _error_of(asked)) is None:
            return
        self._committed = {}
        if is_of_group(error):
            self._may_commit = False
            log.warning(
                "source commits no positions",
                **self._names,
                reason=str(self._client.problem(error)),
                effect="the source is read; tools do not show its lag; the next start tries again",
            )


def _error_of(commit: Asked) -> KafkaError | None:
    """Why a *commit* that was answered has failed; None if it has not."""
    from confluent_kafka import KafkaException

    try:
        errors = (at.error for at in commit.result().topic_partitions)
        return next((error for error in errors if error is not None), None)
    except KafkaException as error:
        return error.args[0]
