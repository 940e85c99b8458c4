"""Checks of entities after each message, to find the messages after which they cannot be saved.

They are made in a copy of the process (see `isolation`), for entities that a run before left so
that they cannot be saved. What such a message did to its entity is taken back in the copy, so that
one run finds them all; the task itself then does not make the calls that were found. Entities that
something else spoilt, such as a later step that got a part of one, are checked after the calls of
such steps, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from wallaroo.dataflow.entities import Bucket, Changes, EntityCache
from wallaroo.dataflow.program import Program
from wallaroo.errors import RuntimeFailure
from wallaroo.model.application import StateCompute
from wallaroo.model.savable import RECENT, Held, Unsavable, settled
from wallaroo.model.windows import Failed, Windows


class Calls(Protocol):
    """Counts the calls of functions of the application."""

    number: int
    """Number of the last call."""


@dataclass(frozen=True)
class Suspects:
    """Entities that are to be checked: all of them, or those of some keys by partition number."""

    keys: Mapping[int, frozenset[Any]] = field(default_factory=dict)
    all: bool = False

    def holds(self, partition: int, key: Any) -> bool:
        """Whether the entity of *key* is one."""
        return self.all or key in self.keys.get(partition, ())

    def among(self, others: Suspects) -> Suspects:
        """Those of these, named by their keys, that are among *others*, too."""
        found = {
            n: frozenset(k for k in keys if others.holds(n, k)) for n, keys in self.keys.items()
        }
        return Suspects({number: keys for number, keys in found.items() if keys})

    def __or__(self, other: Suspects) -> Suspects:
        both = self.keys.keys() | other.keys.keys()
        keys = {n: self.keys.get(n, frozenset()) | other.keys.get(n, frozenset()) for n in both}
        return Suspects(keys, self.all or other.all)

    def __bool__(self) -> bool:
        return self.all or any(self.keys.values())


@dataclass(frozen=True)
class Saving:
    """What the entities of a bucket are in, and how they are saved."""

    cache: EntityCache
    bucket: Bucket

    def unsaved(self, changes: Changes) -> Suspects:
        """The entities among *changes* that cannot be saved."""
        try:
            self.cache.record(changes.changed, changes.forgotten)
        except RuntimeFailure:
            found = {
                number: frozenset(self.cache.problems(number, entities))
                for number, entities in enumerate(changes.changed)
            }
            return Suspects({number: keys for number, keys in found.items() if keys})
        return Suspects()


class Checks:
    """Checks suspects after each call that touches them.

    Args:
        program: What is run.
        saving: The bucket that it is run over.
        suspects: What to check after each call that is given it.
        closely: Those of them to check after every call.
        calls: Counts the calls.
    """

    def __init__(
        self,
        program: Program,
        saving: Saving,
        suspects: Suspects,
        closely: Suspects,
        calls: Calls,
    ) -> None:
        self.findings: dict[int, str] = {}
        """Numbers of the calls after which an entity cannot be saved, and why."""
        self.is_cut_short = False
        """Whether there may be more of them: what follows the call of a later step that spoilt an
        entity had a part of it, and would go otherwise if that call were not made."""
        self._program = program
        self._saving = saving
        self._suspects = suspects
        self._closely = closely
        self._calls = calls
        self._held: dict[int, tuple[Any, Held]] = {}
        """Entities as the worker knows them, and as they are, by the identity of the former."""
        self._where: dict[Held, tuple[int, Any]] = {}
        """Partition and key of each."""
        self._recent: deque[Held] = deque(maxlen=RECENT)
        """Those that were given to calls of late, and are to be checked closely."""
        for number, keys in suspects.keys.items():
            for key in keys & saving.bucket.entities[number].keys():
                self._hold(number, key, saving.bucket.entities[number][key])

    def function(self, step: StateCompute) -> Callable[[Any, Any], Any]:
        """The function of *step*, checked."""
        function, partition = step.function, self._program.partition_numbers[step.partition]
        counts = _is_saved if step.returns_save else _always

        def checked(message: Any, entity: Any) -> Any:
            held = self._of(partition, entity)
            if held is None:
                return function(message, entity)
            return self.call(held, lambda now: function(message, now), counts)

        return checked

    def windows(self, windows: Windows, partition: str) -> Windows:
        """*windows* of *partition*, checked."""
        return _CheckedWindows(windows, self, self._program.partition_numbers[partition])

    def call(
        self,
        held: Held,
        function: Callable[[Any], Any],
        counts: Callable[[Any], bool],
        ahead: int = 0,
    ) -> Any:
        """The result of *function* on the entity of *held*.

        Args:
            held: Holds the entity.
            function: Takes the entity.
            counts: Tells by its result whether the entity is to be saved.
            ahead: 1 where the function is what makes calls, and not a call itself: the first of
                them is at fault then, for nothing is changed where that raises.

        Raises:
            Unsavable: The entity cannot be saved afterwards: it is as if the call were refused.
        """
        number = self._calls.number + ahead
        if self._closely.holds(*self._where[held]):
            self._recent.append(held)
        try:
            return held.call(function, counts)
        except Unsavable as error:
            if not self.is_cut_short:
                self.findings[number] = str(error)
            self._calls.number = number
            raise

    def of_key(self, partition: int, key: Any, entity: Any) -> Held | None:
        """The *entity* of *key*, if it is to be checked."""
        found = self._held.get(id(entity))
        if found is None and self._suspects.holds(partition, key):
            found = self._hold(partition, key, entity)
        return None if found is None else found[1]

    def other(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """*function*, which is given no entity, with a check of those to be checked closely."""
        if not self._closely:
            return function

        def checked(*arguments: Any) -> Any:
            number = self._calls.number
            try:
                return function(*arguments)
            finally:
                if not self.is_cut_short and (problem := settled(self._recent)) is not None:
                    self.findings[number] = str(problem)
                    self.is_cut_short = True

        return checked

    def loose(self) -> Suspects:
        """Those that something else than a call that was given them left unsavable."""
        found: dict[int, frozenset[Any]] = {}
        for held, (partition, key) in self._where.items():
            if held.loose:
                found[partition] = found.get(partition, frozenset()) | {key}
        return Suspects(found)

    def now(self, entity: Any) -> Any:
        """What has become of *entity*."""
        found = self._held.get(id(entity))
        return entity if found is None else found[1].now

    def settled(self, changes: Changes) -> Changes:
        """*changes* without what was taken back."""
        changed = [
            {key: self.now(entity) for key, entity in entities.items()}
            for entities in changes.changed
        ]
        return Changes(changed, changes.forgotten)

    def _of(self, partition: int, entity: Any) -> Held | None:
        found = self._held.get(id(entity))
        if found is None and self._suspects:
            entities = self._saving.bucket.entities[partition]
            last = next(reversed(entities), None)  # a new entity has just been put there
            if self._suspects.all or (entities.get(last) is entity):
                return self.of_key(partition, last, entity)
        return None if found is None else found[1]

    def _hold(self, partition: int, key: Any, entity: Any) -> tuple[Any, Held]:
        of = self._program.partitions[partition]
        held = Held(of.name, entity, self._saving.cache.codecs.get(partition), of.new_entity)
        self._held[id(entity)] = (entity, held)
        self._where[held] = partition, key
        return self._held[id(entity)]


@dataclass(frozen=True)
class _CheckedWindows:
    """Windows whose entities are checked after each message."""

    _windows: Windows
    _checks: Checks
    _partition: int

    def new_entity(self) -> Any:
        return self._windows.new_entity()

    def take(
        self, entity: Any, key: Any, message: Any, arrived_ns: int, failed: Failed
    ) -> list[Any]:
        def take(now: Any) -> list[Any]:
            return self._windows.take(now, key, message, arrived_ns, failed)

        held = self._checks.of_key(self._partition, key, entity)
        if held is None:
            return take(entity)
        made: list[Any] = self._checks.call(held, take, _always, ahead=1)
        return made

    def tick(self, entity: Any, key: Any, now_ns: int, failed: Failed) -> list[Any]:
        return self._windows.tick(self._checks.now(entity), key, now_ns, failed)

    def due_ns(self, entity: Any) -> int | None:
        return self._windows.due_ns(self._checks.now(entity))

    def is_disposable(self, entity: Any) -> bool:
        return self._windows.is_disposable(self._checks.now(entity))

    def convert_accumulators(self, entity: Any, convert: Callable[[Any], Any]) -> Any:
        return self._windows.convert_accumulators(self._checks.now(entity), convert)


def _is_saved(result: Any) -> bool:
    _, save = result
    return bool(save)


def _always(_result: Any) -> bool:
    return True
