"""The end of topics that are a table, up to which they are read before what is joined with them.

It is where the topics ended when they were opened, behind transactions that were open then. The
records before it may be gone by compaction, or belong to transactions that are aborted: what counts
is the position, which passes these as well.
"""

from __future__ import annotations

from collections.abc import Mapping

from wallaroo.connectors.kafka.client import TopicClient
from wallaroo.connectors.kafka.positions import Partition, Positions
from wallaroo.connectors.kafka.problems import KafkaProblem
from wallaroo.connectors.kafka.topic_watch import TopicWatch
from wallaroo.gateway.tables import Tables


class TableEnd:
    """Tells when a source is read to its end, if it is a table that others wait for.

    Args:
        tables: Is notified.
        index: Index of the source.
        client: Client for its topics.
        topics: Its topics.
    """

    def __init__(self, tables: Tables, index: int, client: TopicClient, topics: TopicWatch) -> None:
        self._tables, self._index = tables, index
        self._client, self._topics = client, topics
        self._ends: Mapping[Partition, int] | None = None
        """Where the partitions end; None while that is not known, or a topic is missing."""

    def ask(self, positions: Positions) -> None:
        """Ask where the partitions end, whose records after *positions* are read next.

        Raises:
            KafkaProblem: No broker answers.
        """
        self._ends = None
        if not self._tables.is_awaited(self._index) or self._topics.missing is not None:
            return
        found = self._client.ends(self._topics.partitions, committed=False)
        if unknown := sorted(at for at, end in found.items() if end is None):
            msg = f"no broker says where {unknown[0]} ends"
            raise KafkaProblem(msg)
        self._ends = {at: end for at, end in found.items() if end is not None}
        self.note(positions)

    def note(self, positions: Positions) -> None:
        """Note that the journal was handed the records before *positions*."""
        if self._ends is not None and self._tables.is_awaited(self._index):
            left = (end - positions.offsets.get(at, end) for at, end in self._ends.items())
            self._tables.note_left(self._index, sum(max(0, records) for records in left))
