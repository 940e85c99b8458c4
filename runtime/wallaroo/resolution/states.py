"""The states that steps use: their entities, keys, windows, timers and versions."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any, get_args

from wallaroo.api.builder import DeclaredStep, OtherKeys
from wallaroo.api.places import Place
from wallaroo.model.application import StatePartition
from wallaroo.model.immutable import IMMUTABLE
from wallaroo.model.keys.buckets import stable_hash
from wallaroo.model.migrations import Versions
from wallaroo.model.windows import Windows
from wallaroo.resolution.problems import (
    Problems,
    aliased_class,
    describe,
    missing_instance,
    name_of,
)
from wallaroo.resolution.state_timing import DeclaredTimings
from wallaroo.user_code.exceptions import describe_local


class StateResolver:
    """Collects the states of an application.

    Args:
        problems: Collects problems.
        pickles: Whether entities are saved by pickle, which finds their classes by name.
    """

    def __init__(self, problems: Problems, *, pickles: bool) -> None:
        self._pickles = pickles
        self.partitions: dict[str, StatePartition] = {}
        self._problems = problems
        self._kinds: dict[str, object] = {}
        """Class of the entities, or of their builder, by name of the state."""
        self.timings = DeclaredTimings(problems)
        """Their timers and expiry."""

    def timed_partitions(self) -> dict[str, StatePartition]:
        """All states, with timers and expiry as all their steps declare them."""
        return {
            name: replace(partition, timing=self.timings.of(name))
            for name, partition in self.partitions.items()
        }

    def entities(
        self, step: DeclaredStep, state: Any, label: str
    ) -> tuple[object, Callable[[], Any]]:
        """Return the class of the entities, or of their builder, and a factory for them."""
        if (problem := missing_instance(state, "build")) is not None:
            self._problems.add(step.place, f"{label}: state builder: {problem}")
            return object, object
        if callable(getattr(state, "build", None)):  # a state builder of the first generation
            return (state if inspect.isclass(state) else type(state)), state.build
        if inspect.isclass(state):
            self._problems.check_arity(
                state, 0, f"{label}: state class {state.__name__}", "no arguments"
            )
            if state in IMMUTABLE:
                self._problems.add_hint(
                    step.place,
                    f"{label}: an object of the state class {state.__name__} cannot be changed, so "
                    "each entity keeps its first value; use a class with attributes",
                )
            by_name = self._pickles and state.__reduce_ex__ is object.__reduce_ex__
            if by_name and (local := describe_local(state.__qualname__)) is not None:
                self._problems.add_hint(step.place, f"{label}: its state cannot be saved: {local}")
            return state, entity_factory(state)
        due = "expected a class, or an object with a method build"
        if state is None:
            due = "name its class in the decorator: state=…"
        elif (aliased := aliased_class(state)) is not None:
            due = f"use {aliased.__name__}"
        self._problems.add(step.place, f"{label}: the state is {describe(state)}; {due}")
        return object, object

    def partition(
        self,
        step: DeclaredStep,
        kind: object,
        new_entity: Callable[[], Any],
        label: str,
        windows: Windows | None = None,
    ) -> str:
        """The name of the state that *step* uses, which is declared if it is new.

        Args:
            step: The step.
            kind: Class of the entities, or of their builder.
            new_entity: Creates an entity.
            label: The step, in messages.
            windows: The windows or the join, if its entities are theirs.
        """
        name, keys = str(step.state_name), self._keys(step, label)
        if not isinstance(step.state_name, str):
            self._problems.add(
                step.place,
                f"{label}: the name of the state is {describe(step.state_name)}; expected a str",
            )
        partition = self.partitions.get(name)
        if partition is None:
            versions = Versions.of(kind)
            if versions is not None and (problem := versions.problem()) is not None:
                self._problems.add(step.place, f"{label}: {problem}")
            for version, migration in {} if versions is None else versions.migrations.items():
                what = f"{label}: migration from version {version}"
                self._problems.check_arity(migration.function, 1, what, "fields")
            self.partitions[name] = StatePartition(
                name, new_entity, keys, step.place, windows, versions=versions
            )
            self._kinds[name] = kind
            return name
        if self._kinds[name] is not kind:
            self._problems.add(
                step.place,
                f"{label}: state {name!r} has entities of class {name_of(kind)} here, "
                f"but of {name_of(self._kinds[name])} at {partition.place}",
            )
        if partition.keys != keys:
            self._problems.add(
                step.place,
                f"{label}: the keys of state {name!r} differ from those at {partition.place}",
            )
        return name

    def _keys(self, step: DeclaredStep, label: str) -> frozenset[Any] | None:
        """Return the listed keys; None if every key gets an entity."""
        if step.other_keys not in {None, *get_args(OtherKeys)}:
            self._problems.add(
                step.place, f"{label}: other_keys is {step.other_keys!r}; expected 'add' or 'drop'"
            )
        if step.keys is None:
            keys = frozenset[Any]()
        elif isinstance(step.keys, Iterable):
            keys = self._listed(step.keys, step.place, label)
        else:
            self._problems.add(step.place, f"{label}: the keys are {step.keys!r}; expected a list")
            return None
        if not keys and step.other_keys == "drop":
            self._problems.add(
                step.place,
                f"{label}: other_keys='drop' without partition_keys would drop every message",
            )
        has_builder = callable(getattr(step.state, "build", None))
        other_keys = step.other_keys or ("drop" if has_builder else "add")
        return keys if keys and other_keys == "drop" else None

    def _listed(self, keys: Iterable[Any], place: Place, label: str) -> frozenset[Any]:
        seen: set[Hashable] = set()
        for key in keys:
            try:
                stable_hash(key)  # raises if it is not a valid key
                if key in seen:
                    self._problems.add(place, f"{label}: the key {key!r} is listed twice")
                seen.add(key)
            except Exception as error:  # methods of its class may raise anything
                self._problems.add(place, f"{label}: in the list of keys, {error}")
        return frozenset(seen)


def entity_factory(state: type) -> Callable[[], Any]:
    """Return a factory for entities of the class *state* that do not share class attributes.

    Lists, sets and dictionaries defined in the body of the class would be shared by all entities of
    a process and saved with none of them. Each entity gets a copy instead.

    Example:
        >>> class Stocks:
        ...     stocks = {}
        >>> new = entity_factory(Stocks)
        >>> new().stocks is new().stocks
        False
    """
    shared = {
        name: value
        for cls in reversed(state.__mro__[:-1])
        for name, value in vars(cls).items()
        if isinstance(value, (list, set, dict, bytearray)) and not name.startswith("__")
    }
    if not shared:
        return state

    @functools.wraps(state, updated=())
    def make() -> Any:
        entity = state()
        for name, value in shared.items():
            if getattr(entity, name) is value:
                setattr(entity, name, copy.deepcopy(value))
        return entity

    return make
