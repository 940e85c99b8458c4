"""Assigns state partitions to levels so that messages only move to later levels.

Within a level, every bucket processes its messages in order of arrival, each to completion before
the next. A hop between two partitions stays within a level if the key stays the same, because the
bucket does, too. It does not if messages wait on the way, as before an async step: those that
arrive there otherwise would overtake them. State that forms a cycle has no order of levels and runs
in one bucket: correct, but not parallel.
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
    """Whether messages keep their key."""
    waits: bool = False
    """Whether messages wait on the way until others have been processed."""


class Levels:
    """The levels of state partitions.

    Args:
        partitions: Number of partitions.
        hops: Hops between them.

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
        self._cycles = [
            frozenset(
                q for q in range(partitions) if q == p or (q in reached[p] and p in reached[q])
            )
            for p in range(partitions)
        ]
        self._serials = [self._serial_number(cycle) for cycle in self._cycles]
        self._levels = [0] * partitions
        for partition in range(partitions):
            self._levels[partition] = self._level_of(self._cycles[partition])

    @property
    def count(self) -> int:
        """Number of levels."""
        return max(self._levels, default=0)

    def level(self, partition: int) -> int:
        """Return the level of *partition*, from 1."""
        return self._levels[partition]

    def serial_number(self, partition: int) -> int | None:
        """Return a number for the cycle of *partition*; None if its keys can be distributed."""
        return self._serials[partition]

    def _serial_number(self, cycle: frozenset[int]) -> int | None:
        changes_key = any(
            not hop.same_key and hop.origin in cycle and hop.to in cycle for hop in self._hops
        )
        return min(cycle) if changes_key else None

    def _reached_from(self, start: int) -> set[int]:
        reached: set[int] = set()
        new = {start}
        while new:
            new = {hop.to for hop in self._hops if hop.origin in new} - reached
            reached |= new
        return reached

    def _level_of(self, cycle: frozenset[int]) -> int:
        level = 1
        for hop in self._hops:
            if hop.to in cycle and hop.origin not in cycle:
                level_before = self._level_of(self._cycles[hop.origin])
                stays = hop.same_key and not hop.waits and self._same_buckets(hop)
                level = max(level, level_before if stays else level_before + 1)
        return level

    def _same_buckets(self, hop: Hop) -> bool:
        return self.serial_number(hop.origin) == self.serial_number(hop.to) is None
