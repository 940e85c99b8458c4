"""From the steps of a pipeline as its author wrote them to their normal form."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from wallaroo.api.builder import DeclaredBranch, DeclaredPipeline, DeclaredStep
from wallaroo.api.functions import (
    AnyComputation,
    AnyStateComputation,
    KeyExtractor,
    StateComputation,
)
from wallaroo.api.place import place_of
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
from wallaroo.model.classes import computation_of, key_extractor_of, state_computation_of
from wallaroo.model.problems import Problems, described, named

Key = Callable[[Any], Any]
"""From message to key."""


def only_key(_message: Any) -> None:
    """The key of every message of a state that is not partitioned."""


def _anything(_message: Any, _state: Any) -> None:
    """Stands for a state computation that is none, so that the rest of its step is looked at."""


class BranchResolver:
    """Gives steps their meaning, and collects the state partitions that they use.

    Args:
        problems: Takes what is wrong.
    """

    def __init__(self, problems: Problems) -> None:
        self.partitions: dict[str, StatePartition] = {}
        self._problems = problems
        self._kinds: dict[str, object] = {}
        """Class of the entities, or of their builder, by state partition."""

    def trunk(self, pipeline: DeclaredPipeline) -> Branch:
        """The steps of *pipeline*; sound only where no problem was found."""
        whole = DeclaredBranch(pipeline.steps, pipeline.forks)
        return self._branch(
            whole, f"pipeline {pipeline.name!r}", KeyBy("", only_key, pipeline.place)
        )

    def _branch(self, branch: DeclaredBranch, where: str, key: KeyBy | None) -> Branch:
        """*branch*, whose messages have yet to get *key*, or have the key in force if it is None.

        A key is found as late as can be: where a state computation follows its `key_by`, it finds
        its keys by itself.
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
        made = computation_of(step.computation)
        if not isinstance(made, AnyComputation):
            self._wrong(step, where, "@computation", made)
            return Compute("?", only_key, multi=False, place=step.place)
        self._problems.check_arity(made.function, 1, f"{where}, step {made.name!r}", "message")
        return Compute(made.name, made.function, made.multi, place_of(step.computation))

    def _stateful(self, step: DeclaredStep, where: str, key: Key | None) -> Step:
        if isinstance(step.computation, Windowing):
            return self._windows(step, step.computation, where, key)
        made = state_computation_of(step.computation)
        if not isinstance(made, AnyStateComputation):
            self._wrong(step, where, "@state_computation", made)
            made = StateComputation(_anything, "?", None)
        else:
            label = f"{where}, step {made.name!r}"
            self._problems.check_arity(made.function, 2, label, "message, state")
        label = f"{where}, step {made.name!r}"
        kind, new_entity = self._entities(step, made.state or step.state, label)
        return StateCompute(
            made.name,
            made.function,
            made.multi,
            tells_save=made.state is None,
            partition=self._partition(step, kind, new_entity, label),
            key=key,
            place=place_of(step.computation),
        )

    def _windows(
        self, step: DeclaredStep, windowing: Windowing[Any, Any], where: str, key: Key | None
    ) -> Step:
        kind = windowing.aggregation
        label = f"{where}, windows over {named(kind)}"
        if not (inspect.isclass(kind) and issubclass(kind, Aggregation)):
            self._problems.add(
                windowing.place,
                f"{where}: over(…) takes a subclass of Aggregation, and got {described(kind)}",
            )
            return Compute("?", only_key, multi=False, place=step.place)
        missing = sorted(getattr(kind, "__abstractmethods__", ()))
        if missing:
            self._problems.add(
                place_of(kind), f"{label}: {kind.__name__} does not define {', '.join(missing)}"
            )
            return Compute("?", only_key, multi=False, place=step.place)
        problems = len(self._problems.found)
        self._problems.check_arity(kind, 0, label, "no arguments")
        for method, takes in _AGGREGATION.items():
            function = inspect.unwrap(getattr(kind, method))
            self._problems.check_arity(
                function, 1 + len(takes), f"{label}: {method}", ", ".join(("self", *takes))
            )
        event_time = getattr(windowing.windows, "event_time", None)
        if event_time is not None:
            self._problems.check_arity(event_time, 1, f"{label}: event time", "message")
        if len(self._problems.found) > problems:
            return Compute("?", only_key, multi=False, place=step.place)
        aggregation = kind()
        windows = _model_of(windowing.windows, aggregation)
        partition = self._partition(step, windowing, windows.new_entity, label, windows)
        return WindowCompute(aggregation.name(), windows, partition, key, place_of(kind))

    def _wrong(self, step: DeclaredStep, where: str, decorator: str, made: Any) -> None:
        kind = "to" if step.kind == "to_keyed" else step.kind
        self._problems.add(
            step.place,
            f"{where}: {kind} takes a function decorated {decorator}, and got {described(made)}",
        )

    def _key_by(self, step: DeclaredStep, where: str) -> KeyBy:
        if step.kind == "collect":
            return KeyBy("collect", only_key, step.place)
        key = key_extractor_of(step.key)
        if isinstance(key, KeyExtractor):
            label = f"{where}: key function {named(key)}"
            self._problems.check_arity(key.function, 1, label, "message")
            return KeyBy(f"key_by {named(key)}", key.function, place_of(key.function))
        self._problems.add(
            step.place,
            f"{where}: {described(step.key)} is no key function; decorate it @key_extractor",
        )
        return KeyBy("?", only_key, step.place)

    def _own_key(self, step: DeclaredStep, where: str) -> Key:
        if step.kind == "to_stateful":
            return only_key
        label = f"{where}, step {getattr(step.computation, 'name', '?')!r}"
        key = key_extractor_of(step.key)
        if isinstance(key, KeyExtractor):
            self._problems.check_arity(key.function, 1, f"{label}: key function", "message")
            return key.function
        self._problems.add(
            step.place,
            f"{label}: {described(step.key)} is no key function; decorate it @partition",
        )
        return only_key

    def _entities(
        self, step: DeclaredStep, state: Any, label: str
    ) -> tuple[object, Callable[[], Any]]:
        """What the entities are of, and what makes one."""
        if callable(getattr(state, "build", None)):  # a state builder of the first generation
            return (state if inspect.isclass(state) else type(state)), state.build
        if inspect.isclass(state):
            self._problems.check_arity(
                state, 0, f"{label}: state class {state.__name__}", "no arguments"
            )
            return state, entity_factory(state)
        self._problems.add(step.place, f"{label}: the state is {described(state)}; a class is due")
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
        known = self.partitions.get(name)
        if known is None:
            self.partitions[name] = StatePartition(name, new_entity, keys, step.place, windows)
            self._kinds[name] = kind
            return name
        if self._kinds[name] is not kind:
            self._problems.add(
                step.place,
                f"{label}: state {name!r} has entities of {named(kind)} here "
                f"and of {named(self._kinds[name])} at {known.place}",
            )
        if known.keys != keys:
            self._problems.add(
                step.place, f"{label}: state {name!r} has other keys here than at {known.place}"
            )
        return name

    def _keys(self, step: DeclaredStep, label: str) -> frozenset[Any] | None:
        if step.keys is None:
            return None
        seen: set[Hashable] = set()
        if not isinstance(step.keys, Iterable):
            self._problems.add(step.place, f"{label}: the keys are {step.keys!r}; a list is due")
            return None
        for key in step.keys:
            try:
                if key in seen:
                    self._problems.add(step.place, f"{label}: the key {key!r} is listed twice")
                seen.add(key)
            except TypeError:
                self._problems.add(step.place, f"{label}: the key {key!r} cannot be hashed")
        return frozenset(seen)


_AGGREGATION: dict[str, Sequence[str]] = {
    "initial_accumulator": (),
    "update": ("message", "accumulator"),
    "combine": ("accumulator", "accumulator"),
    "output": ("key", "accumulator"),
}
"""Methods of an aggregation, and what they take."""


def _model_of(
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
    """What makes entities of the class *state*, each with values of its own.

    A list, set or dictionary that is written in the body of the class would be shared by all
    entities of a process, and not be saved with any: each entity gets a copy.

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
