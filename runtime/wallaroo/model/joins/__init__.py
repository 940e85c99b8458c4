"""The semantics of joins, for one key at a time.

A join is two steps over one state, one for each input, which continue alike. To what runs them,
they are windows: an entity holds the messages of one key that may still be joined, the clock frees
them, and a message that comes too late for what was freed is late. What a join emits for a key
depends on its messages and their times of arrival, and not on when ticks of the clock are
processed.
"""

from wallaroo.model.joins.asof import AsOfEntity, AsOfJoin
from wallaroo.model.joins.base import Join, arrival
from wallaroo.model.joins.intervals import IntervalEntity, IntervalJoin
from wallaroo.model.joins.tables import TableEntity, TableJoin, is_kept

__all__ = [
    "AsOfEntity",
    "AsOfJoin",
    "IntervalEntity",
    "IntervalJoin",
    "Join",
    "TableEntity",
    "TableJoin",
    "arrival",
    "is_kept",
]
