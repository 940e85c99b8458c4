"""Resolves the declared steps of a pipeline to their normal form."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, get_args

from wallaroo.api.builder import DeclaredBranch, DeclaredPipeline, DeclaredStep, OtherKeys
from wallaroo.api.functions import (
    AnyComputation,
    AnyStateComputation,
    KeyExtractor,
    StateComputation,
)
from wallaroo.api.places import Place, place_of
from wallaroo.api.windows import Aggregation, CountWindows, RangeWindows, Windowing
from wallaroo.model import windows as model
from wallaroo.model.application import (
    Branch,
    Compute,
    KeyBy,
    StateCompute,
    StatePartition,
    Step,
    WindowCompute,
)
from wallaroo.model.class_api import computation_of, key_extractor_of, state_computation_of
from wallaroo.model.keys.buckets import stable_hash
from wallaroo.model.keys.hints import problem_of_keys
from wallaroo.model.multiple_outputs import returning_list, returning_list_over_state
from wallaroo.model.problems import Problems, describe, missing_instance, name_of

Key = Callable[[Any], Any]
"""From message to key."""


def only_key(_message: Any) -> None:
    """The key of every message of a state without keys."""


def _placeholder(_message: Any, _state: Any) -> None:
    """Replaces an invalid state computation, so that the rest of its step is checked, too."""


class BranchResolver:
    """Resolves steps, and collects the states that they use.

    Args:
        problems: Collects problems.
    """

    def __init__(self, problems: Problems) -> None:
        self.partitions: dict[str, StatePartition] = {}
        self._problems = problems
        self._kinds: dict[str, object] = {}
        """Class of the entities, or of their builder, by name of the state."""

    def trunk(self, pipeline: DeclaredPipeline) -> Branch:
        """Resolve the steps of *pipeline*; the result is valid only if no problem was found."""
        trunk = DeclaredBranch(pipeline.steps, pipeline.forks)
        return self._branch(
            trunk, f"pipeline {pipeline.name!r}", KeyBy("", only_key, pipeline.place)
        )

    def _branch(self, branch: DeclaredBranch, where: str, key: KeyBy | None) -> Branch:
        """Resolve *branch*; *key* is still to be assigned to its messages, unless it is None.

        Keys are extracted as late as possible: a state computation that follows a `key_by` extracts
        its keys itself.
        """
        steps: list[Step] = []
        for declared in branch.steps:
            if declared.kind in {"key_by", "collect"}:
                key = self._key_by(declared, where)
            elif declared.kind == "to_keyed":
                steps.append(self._stateful(declared, where, key.key if key else None))
                key = None
            elif declared.kind in {"to_stateful", "to_state_partition"}:
                steps.append(self._stateful(declared, where, self._own_key(declared, where)))
            else:
                if key is not None and key.key is not only_key:
                    steps.append(key)
                    key = None
                steps.append(self._stateless(declared, where))
        if branch.forks and key is not None and key.key is not only_key:
            steps.append(key)
            key = None
        return Branch(tuple(steps), tuple(self._branch(fork, where, key) for fork in branch.forks))

    def _stateless(self, step: DeclaredStep, where: str) -> Compute:
        computation = self._computation(step, where, computation_of)
        if computation is None:
            return Compute("?", only_key, multi=False, place=step.place)
        if not isinstance(computation, AnyComputation):
            self._report_wrong_kind(step, where, "@computation", computation)
            return Compute("?", only_key, multi=False, place=step.place)
        name, function, multi = computation.name, computation.function, computation.multi
        self._problems.check_arity(function, 1, f"{where}, step {name!r}", "message")
        function = returning_list(function, name) if multi else function
        return Compute(name, function, multi, place_of(step.computation))

    def _stateful(self, step: DeclaredStep, where: str, key: Key | None) -> Step:
        if isinstance(step.computation, Windowing):
            return self._windows(step, step.computation, where, key)
        computation = self._computation(step, where, state_computation_of)
        if not isinstance(computation, AnyStateComputation):
            if computation is not None:
                self._report_wrong_kind(step, where, "@state_computation", computation)
            computation = StateComputation(_placeholder, "?", None)
        else:
            label = f"{where}, step {computation.name!r}"
            self._problems.check_arity(computation.function, 2, label, "message, state")
        label = f"{where}, step {computation.name!r}"
        kind, new_entity = self._entities(step, computation.state or step.state, label)
        returns_save = computation.state is None
        function = computation.function
        if computation.multi:
            function = returning_list_over_state(
                function, computation.name, returns_save=returns_save
            )
        return StateCompute(
            computation.name,
            function,
            computation.multi,
            returns_save=returns_save,
            partition=self._partition(step, kind, new_entity, label),
            key=key,
            place=place_of(step.computation),
        )

    def _windows(
        self, step: DeclaredStep, windowing: Windowing[Any, Any], where: str, key: Key | None
    ) -> Step:
        kind = windowing.aggregation
        label = f"{where}, windows over {name_of(kind)}"
        placeholder = Compute("?", only_key, multi=False, place=step.place)
        if not inspect.isclass(kind):
            self._problems.add(
                windowing.place,
                f"{where}: over(…) expects a class, such as a subclass of Aggregation, "
                f"but got {describe(kind)}",
            )
            return placeholder
        missing = [m for m in _AGGREGATION if not callable(getattr(kind, m, None))]
        missing += sorted(getattr(kind, "__abstractmethods__", ()))
        if missing:
            self._problems.add(
                place_of(kind), f"{label}: {kind.__name__} does not define {', '.join(missing)}"
            )
            return placeholder
        problems = len(self._problems.messages)
        self._problems.check_arity(kind, 0, label, "no arguments")
        for method, takes in _AGGREGATION.items():
            unbound = isinstance(inspect.getattr_static(kind, method), (staticmethod, classmethod))
            takes = takes if unbound else ("self", *takes)  # noqa: PLW2901
            function = inspect.unwrap(getattr(kind, method))
            self._problems.check_arity(function, len(takes), f"{label}: {method}", ", ".join(takes))
        event_time = getattr(windowing.windows, "event_time", None)
        if event_time is not None:
            self._problems.check_arity(event_time, 1, f"{label}: event time", "message")
        if len(self._problems.messages) > problems:
            return placeholder
        aggregation: Any = kind()
        name = aggregation.name() if callable(getattr(kind, "name", None)) else kind.__name__
        windows = _resolve_windows(windowing.windows, aggregation)
        partition = self._partition(step, windowing, windows.new_entity, label, windows)
        return WindowCompute(name, windows, partition, key, place_of(kind))

    def _computation(self, step: DeclaredStep, where: str, convert: Callable[[Any], Any]) -> Any:
        """Return the step's computation after *convert*; None if a problem was reported."""
        try:
            computation = convert(step.computation)
        except ValueError as error:
            self._problems.add(step.place, f"{where}: {error}")
            return None
        name = getattr(computation, "name", "")
        is_computation = isinstance(computation, (AnyComputation, AnyStateComputation))
        if is_computation and not isinstance(name, str):
            self._problems.add(
                step.place, f"{where}: the name of a step is {describe(name)}; expected a str"
            )
            return None
        return computation

    def _report_wrong_kind(
        self, step: DeclaredStep, where: str, decorator: str, computation: Any
    ) -> None:
        kind = "to" if step.kind == "to_keyed" else step.kind
        self._problems.add(
            step.place,
            f"{where}: {kind} expects a function decorated with {decorator}, "
            f"but got {describe(computation)}",
        )

    def _key_by(self, step: DeclaredStep, where: str) -> KeyBy:
        if step.kind == "collect":
            return KeyBy("collect", only_key, step.place)
        key = self._extractor(step, where, "@key_extractor")
        if key is None:
            return KeyBy("?", only_key, step.place)
        self._check_key(key.function, f"{where}: key function {name_of(key)}")
        return KeyBy(f"key_by {name_of(key)}", key.function, place_of(key.function))

    def _check_key(self, function: Key, label: str) -> None:
        self._problems.check_arity(function, 1, label, "message")
        problem = problem_of_keys(function)
        if problem is not None:
            self._problems.add(place_of(function), f"{label}: {problem}")

    def _own_key(self, step: DeclaredStep, where: str) -> Key:
        if step.kind == "to_stateful":
            return only_key
        name = getattr(step.computation, "name", None)
        if not isinstance(name, str):  # an instance of the class API, where name is a method
            name = getattr(step.computation, "__name__", type(step.computation).__name__)
        label = f"{where}, step {name!r}"
        key = self._extractor(step, label, "@partition")
        if key is None:
            return only_key
        self._check_key(key.function, f"{label}: key function")
        return key.function

    def _extractor(
        self, step: DeclaredStep, where: str, decorator: str
    ) -> KeyExtractor[Any, Any] | None:
        """Return the key function of a step; None if a problem was reported."""
        problem = missing_instance(step.key, "partition")
        if problem is not None:
            problem = f"key function {name_of(step.key)}: {problem}"
        elif isinstance(key := key_extractor_of(step.key), KeyExtractor):
            return key
        else:
            problem = f"{describe(step.key)} is not a key function; decorate it with {decorator}"
        self._problems.add(step.place, f"{where}: {problem}")
        return None

    def _entities(
        self, step: DeclaredStep, state: Any, label: str
    ) -> tuple[object, Callable[[], Any]]:
        """Return the class of the entities, or of their builder, and a factory for them."""
        if callable(getattr(state, "build", None)):  # a state builder of the first generation
            return (state if inspect.isclass(state) else type(state)), state.build
        if inspect.isclass(state):
            self._problems.check_arity(
                state, 0, f"{label}: state class {state.__name__}", "no arguments"
            )
            return state, entity_factory(state)
        self._problems.add(step.place, f"{label}: the state is {describe(state)}; expected a class")
        return object, object

    def _partition(
        self,
        step: DeclaredStep,
        kind: object,
        new_entity: Callable[[], Any],
        label: str,
        windows: model.Windows | None = None,
    ) -> str:
        name, keys = str(step.state_name), self._keys(step, label)
        if not isinstance(step.state_name, str):
            self._problems.add(
                step.place,
                f"{label}: the name of the state is {describe(step.state_name)}; expected a str",
            )
        partition = self.partitions.get(name)
        if partition is None:
            self.partitions[name] = StatePartition(name, new_entity, keys, step.place, windows)
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


_AGGREGATION: dict[str, Sequence[str]] = {
    "initial_accumulator": (),
    "update": ("message", "accumulator"),
    "combine": ("accumulator", "accumulator"),
    "output": ("key", "accumulator"),
}
"""Methods of an aggregation, with their parameters."""


def _resolve_windows(
    windows: RangeWindows | CountWindows, aggregation: Aggregation[Any, Any, Any]
) -> model.RangeWindows | model.CountWindows:
    if isinstance(windows, CountWindows):
        return model.CountWindows(windows.count, windows.timeout_ns, aggregation)
    return model.RangeWindows(
        windows.range_ns,
        windows.slide_ns or windows.range_ns,
        windows.delay_ns or 0,
        windows.late or "drop",
        windows.event_time,
        aggregation,
    )


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
