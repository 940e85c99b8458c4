"""Resolves the declared steps of a pipeline to their normal form."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from wallaroo.api.builder import DeclaredBranch, DeclaredPipeline, DeclaredStep
from wallaroo.api.functions import AnyComputation, KeyExtractor
from wallaroo.api.joins import Join, JoinInput
from wallaroo.api.places import place_of
from wallaroo.api.retries import Retries
from wallaroo.api.state_functions import AnyStateComputation, StateComputation
from wallaroo.api.windows import AnyWindows, Windowing
from wallaroo.dataflow.steps.multiple_outputs import returning_list, returning_list_over_state
from wallaroo.dataflow.steps.retrying import retrying
from wallaroo.model.application import (
    Branch,
    Compute,
    KeyBy,
    StateCompute,
    Step,
    WindowCompute,
)
from wallaroo.model.keys.hints import problem_of_keys
from wallaroo.resolution.class_api import computation_of, key_extractor_of, state_computation_of
from wallaroo.resolution.gathered_steps import GATHERED, resolve_gathered
from wallaroo.resolution.joins import resolve_join
from wallaroo.resolution.problems import Problems, describe, missing_instance, name_of
from wallaroo.resolution.state_timing import check_computation
from wallaroo.resolution.states import StateResolver
from wallaroo.resolution.windows import resolve_windowing, why_never_late

Key = Callable[[Any], Any]
"""From message to key."""


_NO_KEY = ""
"""Name of the assignment of keys at the start of a pipeline, which nobody has written."""


def only_key(_message: Any) -> None:
    """The key of every message of a state without keys."""


def _placeholder(_message: Any, _state: Any) -> None:
    """Replaces an invalid state computation, so that the rest of its step is checked, too."""


class BranchResolver:
    """Resolves steps, and collects the states that they use.

    Args:
        problems: Collects problems.
        pickles: Whether entities are saved by pickle.
    """

    def __init__(self, problems: Problems, *, pickles: bool) -> None:
        self.states = StateResolver(problems, pickles=pickles)
        self._problems = problems
        self.hints = problems.hints

    def trunk(self, pipeline: DeclaredPipeline) -> Branch:
        """Resolve the steps of *pipeline*; the result is valid only if no problem was found."""
        trunk = DeclaredBranch(pipeline.steps, pipeline.forks, pipeline.last_sinks)
        return self._branch(
            trunk, f"pipeline {pipeline.name!r}", KeyBy(_NO_KEY, only_key, pipeline.place)
        )

    def _branch(self, branch: DeclaredBranch, where: str, key: KeyBy | None) -> Branch:
        """Resolve *branch*; *key* is still to be assigned to its messages, unless it is None.

        Keys are extracted as late as possible: a state computation that follows a `key_by` extracts
        its keys itself.
        """
        steps: list[Step] = []
        for number, declared in enumerate(branch.steps):
            if declared.kind == "late":
                late = DeclaredBranch(branch.steps[number + 1 :], branch.forks, branch.sinks)
                steps[-1:] = [self._with_late(steps[-1], declared, where, [late])]
                return Branch(tuple(steps), sinks=())
            if declared.kind in {"key_by", "collect"}:
                key = self._key_by(declared, where)
            elif declared.kind == "to_keyed":
                step = self._stateful(declared, where, key.key if key else None)
                self._hint_at_missing_key(step, declared, where, key)
                steps.append(step)
                key = None
            elif declared.kind in {"to_stateful", "to_state_partition", "to_windows"}:
                steps.append(self._stateful(declared, where, self._own_key(declared, where)))
            else:
                if key is not None and key.key is not only_key:
                    steps.append(key)
                    key = None
                steps.append(self._stateless(declared, where))
        if branch.forks and key is not None and key.key is not only_key:
            steps.append(key)
            key = None
        sinks = None if branch.sinks is None else tuple(branch.sinks)
        late_forks = [fork for fork in branch.forks if _is_late(fork)]
        if late_forks:
            rest = [DeclaredBranch(f.steps[1:], f.forks, f.sinks) for f in late_forks]
            steps[-1:] = [self._with_late(steps[-1], late_forks[0].steps[0], where, rest)]
            sinks = ()
        forks = tuple(self._branch(f, where, key) for f in branch.forks if not _is_late(f))
        return Branch(tuple(steps), forks, sinks)

    def _with_late(
        self, step: Step, late: DeclaredStep, where: str, branches: Sequence[DeclaredBranch]
    ) -> Step:
        """Return *step*, which windows are, with *branches* for messages that are *late*."""
        resolved = tuple(self._branch(branch, where, None) for branch in branches)
        if not isinstance(step, WindowCompute):  # a problem with it was reported
            return step
        if (reason := why_never_late(step.windows)) is not None:
            self._problems.add(
                late.place, f"{where}, step {step.name!r}: late() would get no messages: {reason}"
            )
        first = resolved[0]
        return replace(step, late=first if len(resolved) == 1 else Branch((), resolved))

    def _hint_at_missing_key(
        self, step: Step, declared: DeclaredStep, where: str, key: KeyBy | None
    ) -> None:
        if key is not None and key.name == _NO_KEY:
            self._problems.add_hint(
                declared.place,
                f"{where}, step {step.name!r}: there is no key_by before it, so all messages share "
                "one entity; add .key_by(…), or .collect() if that is what you mean",
            )

    def _stateless(self, step: DeclaredStep, where: str) -> Compute:
        computation = self._computation(step, where, computation_of)
        if computation is None:
            return Compute("?", only_key, multi=False, place=step.place)
        if isinstance(computation, GATHERED):
            return resolve_gathered(computation, where, step.place, self._problems)
        if not isinstance(computation, AnyComputation):
            self._report_wrong_kind(step, where, "@computation", computation)
            return Compute("?", only_key, multi=False, place=step.place)
        name, function, multi = computation.name, computation.function, computation.multi
        self._problems.check_arity(
            function,
            1,
            f"{where}, step {name!r}",
            "message",
            if_async="decorate it with @computation_async",
            if_generator=None if multi else "decorate it with @computation_multi, or use flat_map",
        )
        function = returning_list(function, name) if multi else function
        place = place_of(step.computation, step.place)
        if not isinstance(computation.retry, Retries | None):
            retry = describe(computation.retry)
            sentence = f"{where}, step {name!r}: retry is {retry}; expected wallaroo.retries(…)"
            self._problems.add(place, sentence)
            return Compute(name, function, multi, place)
        return Compute(name, retrying(function, computation.retry), multi, place)

    def _stateful(self, step: DeclaredStep, where: str, key: Key | None) -> Step:
        is_windows = isinstance(step.computation, (Windowing, JoinInput))
        if is_windows and step.kind in {"to_keyed", "to_windows"}:
            return self._windows(step, step.computation, where, key)
        if is_windows or step.kind == "to_windows":
            self._report_wrong_kind(step, where, "@state_computation", step.computation)
            return Compute("?", only_key, multi=False, place=step.place)
        computation = self._computation(step, where, state_computation_of)
        if not isinstance(computation, AnyStateComputation):
            if computation is not None:
                self._report_wrong_kind(step, where, "@state_computation", computation)
            computation = StateComputation(_placeholder, "?", None)
        else:
            label = f"{where}, step {computation.name!r}"
            check_computation(computation, label, self._problems)
        label = f"{where}, step {computation.name!r}"
        kind, new_entity = self.states.entities(step, computation.state or step.state, label)
        returns_save = computation.state is None
        function, on_timer = computation.function, computation.timing.on_timer
        if computation.multi:
            name = computation.name
            function = returning_list_over_state(function, name, returns_save=returns_save)
            if on_timer is not None:
                on_timer = returning_list_over_state(on_timer, name, returns_save=returns_save)
        partition = self.states.partition(step, kind, new_entity, label)
        self.states.timings.note(step, computation, partition, label)
        return StateCompute(
            computation.name,
            function,
            computation.multi,
            returns_save=returns_save,
            partition=partition,
            key=key,
            place=place_of(step.computation, step.place),
            on_timer=on_timer,
            event_time=computation.timing.event_time,
        )

    def _windows(
        self,
        step: DeclaredStep,
        windowing: Windowing[Any, Any] | JoinInput,
        where: str,
        key: Key | None,
    ) -> Step:
        kind: object = Windowing if step.kind == "to_windows" else windowing
        if isinstance(windowing, JoinInput):
            resolved, what = resolve_join(windowing, where, self._problems), "join"
            kind = windowing.call
        else:
            resolved, what = resolve_windowing(windowing, where, self._problems), "windows over"
        if resolved is None:
            return Compute("?", only_key, multi=False, place=step.place)
        name, windows, place = resolved
        label = f"{where}, {what} {name}"
        if step.kind == "to_windows" and step.state_name in self.states.partitions:
            other = self.states.partitions[step.state_name].place
            sentence = f"{label}: the state {step.state_name!r} is in use at {other}"
            self._problems.add(step.place, f"{sentence}; windows need a state of their own")
            return Compute("?", only_key, multi=False, place=step.place)
        partition = self.states.partition(step, kind, windows.new_entity, label, windows)
        return WindowCompute(name, windows, partition, key, place)

    def _computation(self, step: DeclaredStep, where: str, convert: Callable[[Any], Any]) -> Any:
        """Return the step's computation after *convert*; None if a problem was reported."""
        try:
            computation = convert(step.computation)
        except ValueError as error:
            self._problems.add(step.place, f"{where}: {error}")
            return None
        name = getattr(computation, "name", "")
        is_computation = isinstance(computation, (AnyComputation, AnyStateComputation, *GATHERED))
        if is_computation and not (isinstance(name, str) and name):
            due = "a text" if name == "" else "a str"
            self._problems.add(
                step.place, f"{where}: the name of a step is {describe(name)}; expected {due}"
            )
            return None
        return computation

    def _report_wrong_kind(
        self, step: DeclaredStep, where: str, decorator: str, computation: Any
    ) -> None:
        kind = "to" if step.kind == "to_keyed" else step.kind
        if isinstance(computation, Windowing):
            sentence = f"{where}: {kind} is given windows; write to_windows(windows, name, key)"
            self._problems.add(step.place, sentence)
            return
        if isinstance(computation, AnyWindows):
            sentence = f"{where}: {kind} is given windows without an aggregation; add .over(…)"
            self._problems.add(step.place, sentence)
            return
        if isinstance(computation, Join):
            sentence = (
                f"{where}: {kind} is given {describe(computation)}, which takes messages of two"
            )
            self._problems.add(step.place, f"{sentence} pipelines; write left.join(right, …)")
            return
        due, remedy = f"a function decorated with {decorator}", ""
        if kind == "to_windows":
            due = "windows with an aggregation, such as range_windows(…).over(…)"
        elif inspect.isclass(computation):
            remedy = "; it has no method compute"
        elif (outer := _decorated_again(computation)) is not None:
            remedy = f"; move {decorator} above @{outer}"
        if type(computation).__name__.endswith("SinkConfig"):
            remedy = "; write to_sink(…)"
        self._problems.add(
            step.place, f"{where}: {kind} expects {due}, but got {describe(computation)}{remedy}"
        )

    def _key_by(self, step: DeclaredStep, where: str) -> KeyBy:
        if step.kind == "collect":
            return KeyBy("collect", only_key, step.place)
        key = self._extractor(step, where, "@key_extractor")
        if key is None:
            return KeyBy("?", only_key, step.place)
        self._check_key(key.function, f"{where}: key function {name_of(key)}")
        return KeyBy(f"key_by {name_of(key)}", key.function, place_of(key.function, step.place))

    def _check_key(self, function: Key, label: str) -> None:
        self._problems.check_arity(function, 1, label, "message", returns=True)
        problem = problem_of_keys(function)
        if problem is not None:
            self._problems.add(place_of(function), f"{label}: {problem}")

    def _own_key(self, step: DeclaredStep, where: str) -> Key:
        if step.kind == "to_stateful" or (step.kind == "to_windows" and step.key is None):
            return only_key
        name = getattr(step.computation, "name", None)
        if not isinstance(name, str):  # an instance of the class API, where name is a method
            name = getattr(step.computation, "__name__", type(step.computation).__name__)
        if step.kind == "to_windows":
            name = step.state_name
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


def _decorated_again(function: Any) -> str | None:
    """The decorator that made *function* of what a decorator of the API had made."""
    if not inspect.isfunction(function):
        return None
    declared = (AnyComputation, AnyStateComputation, *GATHERED)
    enclosed = inspect.getclosurevars(function).nonlocals.values()
    is_wrapper = any(isinstance(thing, declared) for thing in enclosed)
    return function.__qualname__.partition(".")[0] if is_wrapper else None


def _is_late(branch: DeclaredBranch) -> bool:
    """Whether it consists of what follows `late`."""
    return bool(branch.steps) and branch.steps[0].kind == "late"
