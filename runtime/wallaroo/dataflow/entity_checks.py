"""Checks entities after each message, to find the messages after which they cannot be saved.

The checks run in a copy of the process (see `isolation`), for entities that could not be saved
after a previous run. The copy restores the entity after such a message, so one run finds all of
them; the task itself then skips these calls. If something else made an entity unsavable, such as a
later step that had received a part of it, the entity is checked after the calls of such steps, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from wallaroo.dataflow.buckets import Bucket, Changes
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.savable import RECENT, CheckedEntity, Unsavable, settle_all
from wallaroo.dataflow.steps.multiple_outputs import pair_of
from wallaroo.errors import RuntimeFailure
from wallaroo.model.application import StateCompute
from wallaroo.model.windows import Windows

if TYPE_CHECKING:
    from wallaroo.dataflow.isolated_calls import Calls


@dataclass(frozen=True)
class Suspects:
    """Entities to check: all, or those of some keys by partition number."""

    keys: Mapping[int, frozenset[Any]] = field(default_factory=dict)
    all: bool = False

    def contains(self, partition: int, key: Any) -> bool:
        """Whether the entity of *key* is to be checked."""
        return self.all or key in self.keys.get(partition, ())

    def among(self, others: Suspects) -> Suspects:
        """Return those of these keys that are in *others*, too."""
        common = {
            n: frozenset(k for k in keys if others.contains(n, k)) for n, keys in self.keys.items()
        }
        return Suspects({number: keys for number, keys in common.items() if keys})

    def __or__(self, other: Suspects) -> Suspects:
        both = self.keys.keys() | other.keys.keys()
        keys = {n: self.keys.get(n, frozenset()) | other.keys.get(n, frozenset()) for n in both}
        return Suspects(keys, self.all or other.all)

    def __bool__(self) -> bool:
        return self.all or any(self.keys.values())


@dataclass(frozen=True)
class Saving:
    """A bucket, and how it is saved."""

    serializer: EntitySerializer
    bucket: Bucket

    def unsaved(self, changes: Changes) -> Suspects:
        """Return the entities among *changes* that cannot be saved."""
        try:
            self.serializer.record(changes)
        except RuntimeFailure:
            unsavable = {
                number: frozenset(self.serializer.problems(number, entities))
                for number, entities in enumerate(changes.changed)
            }
            return Suspects({number: keys for number, keys in unsavable.items() if keys})
        return Suspects()


class Checks:
    """Checks suspects after each call that touches them.

    Args:
        program: The program.
        saving: The bucket that it runs over.
        suspects: Entities to check after each call that receives them.
        closely: Those to check after every call.
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
        """Why an entity cannot be saved, by the number of the call after which it cannot."""
        self.is_incomplete = False
        """Whether there may be more findings: after a later step has made an entity unsavable,
        further results may differ once that call is skipped."""
        self._program = program
        self._saving = saving
        self._suspects = suspects
        self._closely = closely
        self._calls = calls
        self._checked: dict[int, tuple[Any, CheckedEntity]] = {}
        """Entities as known to the worker, and as checked, by the identity of the former."""
        self._where: dict[CheckedEntity, tuple[int, Any]] = {}
        """Partition and key of each."""
        self._recent: deque[CheckedEntity] = deque(maxlen=RECENT)
        """Entities of recent calls that are to be checked closely."""
        for number, keys in suspects.keys.items():
            for key in keys & saving.bucket.entities[number].keys():
                self._add(number, key, saving.bucket.entities[number][key])

    def function(self, step: StateCompute) -> Callable[..., Any]:
        """Wrap the function of *step* with a check."""
        function, partition = step.function, self._program.partition_numbers[step.partition]
        counts = is_saved if step.returns_save else always

        def call(message: Any, entity: Any, *timers: Any) -> Any:
            checked = self._find(partition, entity)
            if checked is None:
                return function(message, entity, *timers)
            return self.call(checked, lambda current: function(message, current, *timers), counts)

        return call

    def windows(self, windows: Windows, partition: str) -> Windows:
        """Wrap the *windows* of *partition* with checks."""
        number = self._program.partition_numbers[partition]
        return cast("Windows", _CheckedWindows(windows, self, number))

    def call(
        self,
        checked: CheckedEntity,
        function: Callable[[Any], Any],
        counts: Callable[[Any], bool],
        ahead: int = 0,
    ) -> Any:
        """Return the result of *function* on the entity of *checked*.

        Args:
            checked: The entity.
            function: Takes the entity.
            counts: From the function's result to whether the entity is to be saved.
            ahead: 1 if the function makes calls and is not a call itself: the first of them is then
                at fault, because skipping it leaves everything unchanged.

        Raises:
            Unsavable: The entity cannot be saved afterwards; the call counts as skipped.
        """
        number = self._calls.number + ahead
        if self._closely.contains(*self._where[checked]):
            self._recent.append(checked)
        try:
            return checked.call(function, counts)
        except Unsavable as error:
            if not self.is_incomplete:
                self.findings[number] = str(error)
            self._calls.number = number
            raise

    def of_key(self, partition: int, key: Any, entity: Any) -> CheckedEntity | None:
        """Return the checked form of the *entity* of *key*; None if it is not to be checked."""
        entry = self._checked.get(id(entity))
        if entry is None and self._suspects.contains(partition, key):
            entry = self._add(partition, key, entity)
        return None if entry is None else entry[1]

    def other(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap *function*, which receives no entity, with a check of those to check closely."""
        if not self._closely:
            return function

        def call(*arguments: Any) -> Any:
            number = self._calls.number
            try:
                return function(*arguments)
            finally:
                if not self.is_incomplete and (problem := settle_all(self._recent)) is not None:
                    self.findings[number] = str(problem)
                    self.is_incomplete = True

        return call

    def changed_outside(self) -> Suspects:
        """Return the entities that anything but a call that received them made unsavable."""
        suspects: dict[int, frozenset[Any]] = {}
        for checked, (partition, key) in self._where.items():
            if checked.changed_outside:
                suspects[partition] = suspects.get(partition, frozenset()) | {key}
        return Suspects(suspects)

    def current(self, entity: Any) -> Any:
        """Return the current object for *entity*, which may have been restored."""
        entry = self._checked.get(id(entity))
        return entity if entry is None else entry[1].entity

    def current_changes(self, changes: Changes) -> Changes:
        """Return *changes* with restored entities."""
        changed = [
            {key: self.current(entity) for key, entity in entities.items()}
            for entities in changes.changed
        ]
        return Changes(changed, changes.forgotten, changes.times)

    def _find(self, partition: int, entity: Any) -> CheckedEntity | None:
        entry = self._checked.get(id(entity))
        if entry is None and self._suspects:
            entities = self._saving.bucket.entities[partition]
            last = next(reversed(entities), None)  # where a new entity was just inserted
            if self._suspects.all or (entities.get(last) is entity):
                return self.of_key(partition, last, entity)
        return None if entry is None else entry[1]

    def _add(self, number: int, key: Any, entity: Any) -> tuple[Any, CheckedEntity]:
        partition, serializer = self._program.partitions[number], self._saving.serializer
        checked = CheckedEntity(
            partition.name,
            entity,
            serializer.codecs.get(number),
            partition.new_entity,
            serializer.limit_bytes,
        )
        self._checked[id(entity)] = (entity, checked)
        self._where[checked] = number, key
        return self._checked[id(entity)]


class _CheckedWindows:
    """Windows whose entities are checked after each message."""

    def __init__(self, windows: Windows, checks: Checks, partition: int) -> None:
        self._windows, self._checks, self._partition = windows, checks, partition
        self.new_entity, self.by_event = windows.new_entity, windows.by_event

    def take(self, entity: Any, *arguments: Any) -> Any:
        def take(current: Any) -> Any:
            return self._windows.take(current, *arguments)

        checked = self._checks.of_key(self._partition, arguments[0], entity)
        if checked is None:
            return take(entity)
        return self._checks.call(checked, take, always, ahead=1)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """What takes an entity, which may have been restored."""
        method = getattr(self._windows, name)
        return lambda entity, *arguments: method(self._checks.current(entity), *arguments)


def is_saved(result: Any) -> bool:
    """Whether a state computation that returned *result* saves its entity."""
    _, save = pair_of(result)
    return bool(save)


def always(_result: Any) -> bool:
    """The same of one that always does."""
    return True
