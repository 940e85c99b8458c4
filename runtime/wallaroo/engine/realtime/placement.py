"""The executors on which the tasks of a real-time query are placed, for as long as it runs.

Spark places tasks when an epoch begins, and a process stays with its partition. So the query is
stopped and started again when it is to use other executors.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Protocol

from wallaroo.engine.spark.supervised_query import NotYet

_ALL_S = 30.0
"""Time to wait at the start until all executors are there."""
_SETTLED_S = 10.0
"""Time without a change of executors after which the query uses those that are there, even if more
were requested."""


class Executors(Protocol):
    """See `wallaroo.engine.spark.executors`."""

    @property
    def wanted(self) -> int:
        """The requested number."""

    def running(self) -> list[str]:
        """Names of active executors."""

    def slots(self) -> int:
        """Tasks that they run at a time."""


class Placement:
    """Decides when a query starts, and when it is to be moved.

    Args:
        executors: The executors.
        slots: Tasks that the query has, which all run at the same time.
        clock: Seconds, for tests.
    """

    def __init__(
        self, executors: Executors, slots: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._executors = executors
        self._slots = slots
        self._clock = clock
        self._used: set[str] = set()
        """Executors that were there when the query started."""
        self._found: set[str] = set()
        self._found_at = self._since = clock()
        """When executors last came or went, and when this was created."""
        self._has_started = self._is_placed = self._works = False

    def take(self) -> None:
        """Note that the query starts on the executors that are there.

        Raises:
            NotYet: There are not enough.
        """
        self._is_placed = False
        found = set(self._executors.running())
        available = self._executors.slots()
        if available < self._slots:
            msg = (
                f"{self._slots} tasks run at the same time, and executors have room for {available}"
            )
            raise NotYet(msg)
        is_first = not self._has_started and self._clock() - self._since < _ALL_S
        if is_first and len(found) < self._executors.wanted:
            msg = f"{len(found)} of {self._executors.wanted} executors are there"
            raise NotYet(msg)
        self._has_started = self._is_placed = True
        self._used, self._works = found, False

    def worked(self) -> None:
        """Note that the query has published something, or ended an epoch."""
        self._works = True

    def fresh(self) -> frozenset[str]:
        """Active executors that the query does not use."""
        return frozenset(self._found - self._used)

    def is_outdated(self) -> bool:
        """Whether the query is to be moved: there are more executors, or more than requested.

        It fails by itself if an executor is lost that it uses. While it starts, it is not moved:
        messages would wait for two starts, and for any number if executors come one by one.
        """
        found, now = set(self._executors.running()), self._clock()
        if found != self._found:
            self._found, self._found_at = found, now
        # one that is not placed starts on those that are there, as soon as they are enough
        if not (self._is_placed and self._works):
            return False
        if len(found) > self._executors.wanted:
            return True
        if not found - self._used:
            return False
        return len(found) == self._executors.wanted or now - self._found_at > _SETTLED_S


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own virtual machine.

    Example:
        >>> [is_local(master) for master in ("local", "local[4]", "local-cluster[2,1,1024]")]
        [True, True, False]
    """
    return re.match(r"local(\[|$)", master) is not None
