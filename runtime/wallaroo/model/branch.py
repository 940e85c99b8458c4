"""From the steps of a pipeline as its author wrote them to their normal form."""

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
from wallaroo.model.multiple_outputs import several, several_over_state
from wallaroo.model.problems import Problems, described, due_instance, named

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
        made = self._made(step, where, computation_of)
        if made is None:
            return Compute("?", only_key, multi=False, place=step.place)
        if not isinstance(made, AnyComputation):
            self._wrong(step, where, "@computation", made)
            return Compute("?", only_key, multi=False, place=step.place)
        self._problems.check_arity(made.function, 1, f"{where}, step {made.name!r}", "message")
        function = several(made.function, made.name) if made.multi else made.function
        return Compute(made.name, function, made.multi, place_of(step.computation))

    def _stateful(self, step: DeclaredStep, where: str, key: Key | None) -> Step:
        if isinstance(step.computation, Windowing):
            return self._windows(step, step.computation, where, key)
        made = self._made(step, where, state_computation_of)
        if not isinstance(made, AnyStateComputation):
            if made is not None:
                self._wrong(step, where, "@state_computation", made)
            made = StateComputation(_anything, "?", None)
        else:
            label = f"{where}, step {made.name!r}"
            self._problems.check_arity(made.function, 2, label, "message, state")
        label = f"{where}, step {made.name!r}"
        kind, new_entity = self._entities(step, made.state or step.state, label)
        tells_save = made.state is None
        function = made.function
        if made.multi:
            function = several_over_state(function, made.name, tells_save=tells_save)
        return StateCompute(
            made.name,
            function,
            made.multi,
            tells_save=tells_save,
            partition=self._partition(step, kind, new_entity, label),
            key=key,
            place=place_of(step.computation),
        )

    def _windows(
        self, step: DeclaredStep, windowing: Windowing[Any, Any], where: str, key: Key | None
    ) -> Step:
        kind = windowing.aggregation
        label = f"{where}, windows over {named(kind)}"
        nothing = Compute("?", only_key, multi=False, place=step.place)
        if not inspect.isclass(kind):
            self._problems.add(
                windowing.place,
                f"{where}: over(…) takes a class, such as a subclass of Aggregation, "
                f"and got {described(kind)}",
            )
            return nothing
        missing = [m for m in _AGGREGATION if not callable(getattr(kind, m, None))]
        missing += sorted(getattr(kind, "__abstractmethods__", ()))
        if missing:
            self._problems.add(
                place_of(kind), f"{label}: {kind.__name__} does not define {', '.join(missing)}"
            )
            return nothing
        problems = len(self._problems.found)
        self._problems.check_arity(kind, 0, label, "no arguments")
        for method, takes in _AGGREGATION.items():
            unbound = isinstance(inspect.getattr_static(kind, method), (staticmethod, classmethod))
            takes = takes if unbound else ("self", *takes)  # noqa: PLW2901
            function = inspect.unwrap(getattr(kind, method))
            self._problems.check_arity(function, len(takes), f"{label}: {method}", ", ".join(takes))
        event_time = getattr(windowing.windows, "event_time", None)
        if event_time is not None:
            self._problems.check_arity(event_time, 1, f"{label}: event time", "message")
        if len(self._problems.found) > problems:
            return nothing
        aggregation: Any = kind()
        name = aggregation.name() if callable(getattr(kind, "name", None)) else kind.__name__
        windows = _model_of(windowing.windows, aggregation)
        partition = self._partition(step, windowing, windows.new_entity, label, windows)
        return WindowCompute(name, windows, partition, key, place_of(kind))

    def _made(self, step: DeclaredStep, where: str, of: Callable[[Any], Any]) -> Any:
        """The step's computation, as *of* makes it; None where that was found to be wrong."""
        try:
            made = of(step.computation)
        except ValueError as error:
            self._problems.add(step.place, f"{where}: {error}")
            return None
        name = getattr(made, "name", "")
        if isinstance(made, (AnyComputation, AnyStateComputation)) and not isinstance(name, str):
            self._problems.add(
                step.place, f"{where}: the name of a step is {described(name)}; a str is due"
            )
            return None
        return made

    def _wrong(self, step: DeclaredStep, where: str, decorator: str, made: Any) -> None:
        kind = "to" if step.kind == "to_keyed" else step.kind
        self._problems.add(
            step.place,
            f"{where}: {kind} takes a function decorated {decorator}, and got {described(made)}",
        )

    def _key_by(self, step: DeclaredStep, where: str) -> KeyBy:
        if step.kind == "collect":
            return KeyBy("collect", only_key, step.place)
        key = self._extractor(step, where, "@key_extractor")
        if key is None:
            return KeyBy("?", only_key, step.place)
        self._check_key(key.function, f"{where}: key function {named(key)}")
        return KeyBy(f"key_by {named(key)}", key.function, place_of(key.function))

    def _check_key(self, function: Key, label: str) -> None:
        self._problems.check_arity(function, 1, label, "message")
        problem = problem_of_keys(function)
        if problem is not None:
            self._problems.add(place_of(function), f"{label}: {problem}")

    def _own_key(self, step: DeclaredStep, where: str) -> Key:
        if step.kind == "to_stateful":
            return only_key
        name = getattr(step.computation, "name", None)
        if not isinstance(name, str):  # it is of a class whose instances have a method for that
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
        """The key function of a step; None where that was found to be none."""
        problem = due_instance(step.key, "partition")
        if problem is not None:
            problem = f"key function {named(step.key)}: {problem}"
        elif isinstance(key := key_extractor_of(step.key), KeyExtractor):
            return key
        else:
            problem = f"{described(step.key)} is no key function; decorate it {decorator}"
        self._problems.add(step.place, f"{where}: {problem}")
        return None

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
        if not isinstance(step.state_name, str):
            self._problems.add(
                step.place,
                f"{label}: the name of the state is {described(step.state_name)}; a str is due",
            )
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
        """The keys that there are; None where every key makes its entity."""
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
                stable_hash(key)  # raises where it is not a valid key
                if key in seen:
                    self._problems.add(place, f"{label}: the key {key!r} is listed twice")
                seen.add(key)
            except Exception as error:  # its class may run code of the user's
                self._problems.add(place, f"{label}: in the list of keys, {error}")
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
