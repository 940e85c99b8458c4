"""Changes of entities, by the messages that made them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wallaroo.dataflow.json_codec import to_plain
from wallaroo.history.differences import ABSENT
from wallaroo.user_code.exceptions import describe_error

Where = tuple[str, Any]
"""State and key."""
Touched = Mapping[str, set[Any]]
"""Keys of changed entities, by state."""
UNKNOWN = {"$unknown": True}
"""In the place of an entity that was there before the log begins."""


def all_of(touched: Touched) -> Iterator[Where]:
    """State and key of each entity."""
    for name, keys in touched.items():
        yield from ((name, key) for key in keys)


def plain_of(load: Callable[[], Any]) -> Any:
    """The plain form of what *load* returns, or the reason why it has none."""
    try:
        return to_plain(load())
    except Exception as error:
        return {"$repr": f"<it cannot be shown: {describe_error(error)}>"}


class Snapshot:
    """An entity at some moment, of which the plain form is made when it is asked for.

    Args:
        plain: Its plain form, if that is known.
        data: It, pickled.
    """

    def __init__(self, plain: Any = None, data: bytes | None = None) -> None:
        self._plain, self._data = plain, data

    @classmethod
    def of(cls, entity: Any) -> Snapshot:
        """Take a snapshot of *entity*."""
        try:
            return cls(data=pickle.dumps(entity, protocol=5))
        except Exception:  # it cannot be pickled; the application has its own codec
            return cls(plain_of(lambda: entity))

    @property
    def plain(self) -> Any:
        """It in plain form."""
        if self._data is not None:
            data, self._data = self._data, None
            self._plain = plain_of(lambda: pickle.loads(data))
        return self._plain


NOTHING, NOT_KNOWN = Snapshot(ABSENT), Snapshot(UNKNOWN)


class Arrival(NamedTuple):
    """A message, or a reading of the clock."""

    offset: int
    at_ns: int
    """When it arrived, in nanoseconds since the Unix epoch."""
    source: str | None
    """Name of its source; None for a reading of the clock."""
    message: Any = None
    """What the decoder got."""


Debugs = Callable[[Arrival], bool]
"""Whether a debugger stops when this message, or this reading of the clock, changes an entity."""


@dataclass
class Change:
    """What a message, a timer or the end of a window did to an entity. Values are in plain form."""

    where: Where | None
    """The entity; None for a message that had none on its way."""
    arrival: Arrival | None
    """None if no message was found that made the change."""
    pipeline: str = ""
    step: str = ""
    """Name of the step with the state."""
    path: list[tuple[str, Any]] = field(default_factory=list)
    """Steps before, each with the message that it passed on."""
    begun: Snapshot = NOT_KNOWN
    """The entity before."""
    ended: Snapshot = NOT_KNOWN
    """The entity after it."""
    is_new: bool = False
    """Whether `begun` is what the entity is made as, and there was none."""
    outputs: list[Any] = field(default_factory=list)
    """What the step passed on."""
    sent: list[tuple[str, bytes]] = field(default_factory=list)
    """What then left the application: the name of a sink, and an output."""
    error: str | None = None
    """What was raised, here or behind it."""
    cause: Change | None = None
    """The change of another entity because of which there is this one."""
    recorded: Any = None
    """What the application has published in the place of `after`, if that is something else."""

    @property
    def before(self) -> Any:
        """The entity before, in plain form."""
        return self.begun.plain

    @property
    def after(self) -> Any:
        """The entity after it, in plain form."""
        return self.ended.plain
