"""Which state partition is run at which level, so that messages only ever go on to later ones.

Within a level every bucket runs its messages in the order of their arrival, each message through
all that it leads to before the next. A hop between two partitions stays within a level where the
key stays the same, because then the bucket does. Partitions that messages go round in a circle
between have no order of levels: one bucket runs all their keys. That is right, but not parallel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Hop:
    """Messages go from one state partition to another."""

    origin: int
    to: int
    same_key: bool
    """Whether they keep the key that they had there."""


class Levels:
    """The levels of some state partitions.

    Args:
        partitions: How many there are.
        hops: The hops between them.

    Example:
        >>> levels = Levels(3, [Hop(0, 1, same_key=False), Hop(1, 2, same_key=True)])
        >>> [levels.level(partition) for partition in range(3)]
        [1, 2, 2]
        >>> levels.count
        2
    """

    def __init__(self, partitions: int, hops: Sequence[Hop]) -> None:
        self._hops = hops
        reached = [self._reached_from(start) for start in range(partitions)]
        self._circles = [
            frozenset(
                q for q in range(partitions) if q == p or (q in reached[p] and p in reached[q])
            )
            for p in range(partitions)
        ]
        self._levels = [0] * partitions
        for partition in range(partitions):
            self._levels[partition] = self._level_of(self._circles[partition])

    @property
    def count(self) -> int:
        """Number of levels."""
        return max(self._levels, default=0)

    def level(self, partition: int) -> int:
        """The level that runs *partition*, from 1."""
        return self._levels[partition]

    def serial_number(self, partition: int) -> int | None:
        """A number for the circle that *partition* is in; None if its keys can be spread."""
        circle = self._circles[partition]
        changes_key = any(
            not hop.same_key and hop.origin in circle and hop.to in circle for hop in self._hops
        )
        return min(circle) if changes_key else None

    def _reached_from(self, start: int) -> set[int]:
        reached: set[int] = set()
        new = {start}
        while new:
            new = {hop.to for hop in self._hops if hop.origin in new} - reached
            reached |= new
        return reached

    def _level_of(self, circle: frozenset[int]) -> int:
        level = 1
        for hop in self._hops:
            if hop.to in circle and hop.origin not in circle:
                before = self._level_of(self._circles[hop.origin])
                stays = hop.same_key and self._spread_alike(hop)
                level = max(level, before if stays else before + 1)
        return level

    def _spread_alike(self, hop: Hop) -> bool:
        return self.serial_number(hop.origin) == self.serial_number(hop.to) is None
