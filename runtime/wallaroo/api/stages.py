"""Stages and paths, which calls on pipelines create, and the tree that they form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from wallaroo.api.builder import DeclaredBranch, DeclaredStep
from wallaroo.api.joins import JoinCall, JoinInput
from wallaroo.api.places import Place
from wallaroo.api.ready_aggregations import ReadyAggregation
from wallaroo.api.state_functions import AnyStateComputation
from wallaroo.api.windows import Windowing


@dataclass(frozen=True, eq=False)
class Stage:
    """One call of `to`, `key_by`, `collect` or `late`, or one input of a `join`.

    It is shared by the branches that contain it.
    """

    kind: Literal["to", "key_by", "collect", "late"]
    place: Place
    function: Any = None
    """Computation, windows, input of a join or key extractor."""


@dataclass(frozen=True, eq=False)
class Origin:
    """One call of `source`."""

    name: str
    source: Any
    place: Place


@dataclass(frozen=True)
class SourcePath:
    """The path from one source through stages."""

    origin: Origin
    stages: tuple[Stage, ...] = ()


class RemainingPath(NamedTuple):
    """The stages of a branch that remain to be declared."""

    stages: tuple[Stage, ...]
    sinks: list[int] | None
    """Indices of the sinks that follow; None for all."""


def merged(paths: list[RemainingPath], names: dict[Stage, str]) -> DeclaredBranch:
    """Combine *paths* into a tree: their common prefix, followed by a fork."""
    steps: list[DeclaredStep] = []
    for stages in zip(*(path.stages for path in paths), strict=False):
        if any(stage is not stages[0] for stage in stages):
            break
        steps.append(_declared(stages[0], names))
    if len(paths) == 1:
        return DeclaredBranch(steps, [], paths[0].sinks)
    by_first: dict[Stage | None, list[RemainingPath]] = {}
    for path in paths:
        suffix = path.stages[len(steps) :]
        by_first.setdefault(suffix[0] if suffix else None, []).append(
            RemainingPath(suffix, path.sinks)
        )
    forks: list[DeclaredBranch] = []
    for first, group in by_first.items():
        if first is None:
            forks += [DeclaredBranch([], [], path.sinks) for path in group]
        else:
            forks.append(merged(group, names))
    return DeclaredBranch(steps, forks)


def _declared(stage: Stage, names: dict[Stage, str]) -> DeclaredStep:
    if stage.kind != "to":
        return DeclaredStep(stage.kind, None, stage.place, key=stage.function)
    if stage not in names:
        return DeclaredStep("to", stage.function, stage.place)
    state = getattr(stage.function, "state", None)
    return DeclaredStep("to_keyed", stage.function, stage.place, state, names[stage])


def state_names(branches: Sequence[SourcePath]) -> dict[Stage, str]:
    """Name the state of each stateful stage after its computation, with a number if necessary."""
    names: dict[Stage, str] = {}
    of_joins: dict[JoinCall, str] = {}
    for stage in (stage for branch in branches for stage in branch.stages):
        function = stage.function
        if stage in names or not isinstance(function, (AnyStateComputation, Windowing, JoinInput)):
            continue
        if isinstance(function, JoinInput) and function.call in of_joins:
            names[stage] = of_joins[function.call]
            continue
        base = _name_of(function)
        taken = {name for name in names.values() if name.split("#")[0] == base}
        names[stage] = f"{base}#{len(taken) + 1}" if taken else base
        if isinstance(function, JoinInput):
            of_joins[function.call] = names[stage]
    return names


def _name_of(
    function: AnyStateComputation[Any, Any, Any] | Windowing[Any, Any] | JoinInput,
) -> str:
    if isinstance(function, JoinInput):
        return str(getattr(function.call.join, "name", "join"))
    if isinstance(function, AnyStateComputation):
        return function.name
    aggregation = function.aggregation
    if isinstance(aggregation, ReadyAggregation):
        return aggregation.name()
    return aggregation.__name__ if isinstance(aggregation, type) else type(aggregation).__name__
