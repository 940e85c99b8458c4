"""Windows of a number of messages."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wallaroo.api.aggregations import Window
from wallaroo.model.windows.base import Aggregating, Failed, early_of
from wallaroo.saved_names import saved_as
from wallaroo.user_code.callers import time_limited


@saved_as("CountEntity")
@dataclass(slots=True)
class CountEntity:
    """The open window of one key."""

    messages: int = 0
    accumulator: Any = None
    seen_ns: int = 0
    """Wall clock at the arrival of the last message."""
    # saved only if they are set, as entities were saved before there were early results
    first_ns: int = field(init=False, repr=False, compare=False)
    """Wall clock at the arrival of the first message; unset if outputs do not take it."""
    early_ns: int | None = field(init=False, repr=False, compare=False)
    """Wall clock at which an early result is due; may be unset."""


@time_limited
@dataclass(frozen=True)
class CountWindows(Aggregating):
    """Windows of a number of messages."""

    count: int
    timeout_ns: int | None

    def __str__(self) -> str:
        return f"windows of {self.count:,} messages"

    @property
    def by_event(self) -> bool:
        """Return False: no time of messages counts."""
        return False

    def new_entity(self) -> CountEntity:
        return CountEntity()

    def take(
        self, entity: CountEntity, key: Any, message: Any, arrived_ns: int, failed: Failed
    ) -> list[Any]:
        """Aggregate the message; the last one closes the window."""
        accumulator = entity.accumulator
        if not entity.messages:
            accumulator = self.aggregation.initial_accumulator()
        self.aggregation.update(message, accumulator)
        entity.accumulator, entity.seen_ns = accumulator, arrived_ns
        if self.takes_window and not entity.messages:
            entity.first_ns = arrived_ns
        entity.messages += 1
        if entity.messages == self.count:
            return self._close(entity, key, failed)
        if self.early is None:
            return []
        if self.early.messages is not None:
            ready = entity.messages % self.early.messages == 0
            return self._result(entity, key, failed, is_final=False) if ready else []
        assert self.early.every_ns is not None
        if early_of(entity) is None:
            entity.early_ns = arrived_ns + self.early.every_ns
        return []

    def tick(self, entity: CountEntity, key: Any, now_ns: int, failed: Failed) -> list[Any]:
        """Close the window if its key has been silent for too long, or emit an early result."""
        outputs: list[Any] = []
        while (due := self.due_ns(entity)) is not None and due <= now_ns:
            if due == self.close_due_ns(entity):
                outputs += self._close(entity, key, failed)
            else:
                entity.early_ns = None
                outputs += self._result(entity, key, failed, is_final=False)
        return outputs

    def is_disposable(self, entity: CountEntity) -> bool:
        """Whether the window is empty."""
        return not entity.messages

    def open_windows(self, entity: CountEntity) -> int:
        """Return 1 if there is a message."""
        return 1 if entity.messages else 0

    def watermark(self, entity: CountEntity) -> int | None:  # noqa: ARG002
        """Return None: no time of messages counts."""
        return None

    def convert_accumulators(
        self, entity: CountEntity, convert: Callable[[Any], Any]
    ) -> CountEntity:
        """Return a copy with a converted accumulator, if there is one."""
        if not entity.messages:
            return entity
        converted = copy.copy(entity)
        converted.accumulator = convert(entity.accumulator)
        return converted

    def close_due_ns(self, entity: CountEntity) -> int | None:
        """Return when the timeout closes the window."""
        if self.timeout_ns is None or not entity.messages:
            return None
        return entity.seen_ns + self.timeout_ns

    def _close(self, entity: CountEntity, key: Any, failed: Failed) -> list[Any]:
        outputs = self._result(entity, key, failed, is_final=True)
        entity.messages, entity.accumulator = 0, None
        if early_of(entity) is not None:
            entity.early_ns = None
        return outputs

    def _result(
        self, entity: CountEntity, key: Any, failed: Failed, *, is_final: bool
    ) -> list[Any]:
        first = getattr(entity, "first_ns", entity.seen_ns)
        try:
            return self.output(key, entity.accumulator, Window(first, entity.seen_ns, is_final))
        except (Exception, SystemExit) as error:
            early = "" if is_final else "early result of "
            failed(f"{early}window of {entity.messages} messages of key {key!r}", error)
            return []
