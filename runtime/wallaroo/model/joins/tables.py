"""Joins of each left message with the last right one."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from wallaroo.model.joins.base import Joining, coarse
from wallaroo.model.windows import Failed
from wallaroo.model.windows.base import duration
from wallaroo.saved_names import saved_as
from wallaroo.user_code.callers import time_limited


@saved_as("TableEntity")
@dataclass(slots=True)
class TableEntity:
    """The last right message of one key."""

    message: Any = None
    """None if there is none: no message is None."""
    seen_ns: int = 0
    """Clock at the arrival of the last message of either side."""


def is_kept(_message: Any) -> bool:
    """Stands for the function that tells whether a right message deletes the last one."""
    return False


@time_limited
@dataclass(frozen=True)
class TableJoin(Joining):
    """Joins each left message with the last right one.

    Example:
        >>> from wallaroo.model.joins import arrival
        >>> left = TableJoin(lambda left, right: left + right, False, arrival, arrival, True, None)
        >>> entity = left.new_entity()
        >>> left.take(entity, "key", "a", 1, None)
        []
        >>> left.right().take(entity, "key", "b", 2, None)
        []
        >>> left.take(entity, "key", "a", 3, None)
        ['ab']
    """

    ttl_ns: int | None
    deleted: Callable[[Any], object] = is_kept
    """Whether a right message deletes the last one, instead of replacing it."""
    table_first: bool = False
    """Whether sources of left messages wait until those of right ones are read to their ends."""

    def guarded(self, guard: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Self:
        """See `Join.guarded`."""
        return dataclasses.replace(super().guarded(guard), deleted=guard(self.deleted))

    def __str__(self) -> str:
        ttl = "" if self.ttl_ns is None else f", ttl {duration(self.ttl_ns)}"
        first = ", table first" if self.table_first else ""
        return f"table join{' (left)' if self.keeps_left else ''}{ttl}{first}"

    @property
    def by_event(self) -> bool:
        """Return False: no time of messages counts."""
        return False

    @property
    def why_never_late(self) -> str:
        """The order of arrival counts."""
        return "the order of arrival counts, so no message is late"

    def new_entity(self) -> TableEntity:
        return TableEntity()

    def take(
        self,
        entity: TableEntity,
        key: Any,  # noqa: ARG002
        message: Any,
        arrived_ns: int,
        failed: Failed,  # noqa: ARG002
    ) -> list[Any]:
        """Join a left message, or keep a right one, or delete the one that is kept."""
        self.time_of(message)
        deletes = not self.is_left and self.deleted(message)
        if self.ttl_ns is not None and arrived_ns >= entity.seen_ns + self.ttl_ns:
            entity.message = None
        entity.seen_ns = max(entity.seen_ns, arrived_ns)
        if not self.is_left:
            entity.message = None if deletes else message
            return []
        if entity.message is None and not self.keeps_left:
            return []
        output = self.function(message, entity.message)
        return [] if output is None else [output]

    def tick(
        self,
        entity: TableEntity,
        key: Any,  # noqa: ARG002
        now_ns: int,
        failed: Failed,  # noqa: ARG002
    ) -> list[Any]:
        """Free the message if its key was idle for too long."""
        if (idle := self.idle_ns(entity)) is not None and idle <= now_ns:
            entity.message = None
        return []

    def due_ns(self, entity: TableEntity) -> int | None:  # noqa: ARG002
        """Return None: the clock has no effect."""
        return None

    def idle_ns(self, entity: TableEntity) -> int | None:
        """Return when the message is freed if no other comes."""
        if self.ttl_ns is None or entity.message is None:
            return None
        return coarse(entity.seen_ns + self.ttl_ns, self.ttl_ns)

    def is_disposable(self, entity: TableEntity) -> bool:
        """Whether there is no message."""
        return entity.message is None

    def open_windows(self, entity: TableEntity) -> int:
        return 0 if entity.message is None else 1

    def watermark(self, entity: TableEntity) -> int | None:  # noqa: ARG002
        """Return None: no time of messages counts."""
        return None

    def convert_accumulators(
        self, entity: TableEntity, convert: Callable[[Any], Any]
    ) -> TableEntity:
        if entity.message is None:
            return entity
        converted = copy.copy(entity)
        converted.message = convert(entity.message)
        return converted
