"""Resolves declared joins, or reports what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wallaroo.api import joins as api
from wallaroo.api.places import place_of
from wallaroo.model.joins import AsOfJoin, IntervalJoin, TableJoin, arrival, is_kept
from wallaroo.resolution.problems import Problems, describe
from wallaroo.resolution.windows import ResolvedWindows

Time = Callable[[Any], Any]
"""From a message to its time."""


def resolve_join(joined: api.JoinInput, where: str, problems: Problems) -> ResolvedWindows | None:
    """Resolve an input of a join, which is in the pipeline *where*; None if there is a problem.

    Problems of a join are reported for its left input alone.
    """
    if not joined.is_left:
        problems = Problems()
    join, before = joined.call.join, len(problems.messages)
    if not isinstance(join, api.Join):
        problems.add(
            joined.call.place,
            f"{where}: join expects a function decorated with @table_join, @asof_join or "
            f"@interval_join, but got {describe(join)}",
        )
        return None
    if not isinstance(join.name, str):
        sentence = f"{where}: the name of a step is {describe(join.name)}; expected a str"
        problems.add(joined.call.place, sentence)
        return None
    label = f"{where}, join {join.name!r}"
    problems.check_arity(join.function, 2, label, "left message, right message")
    times: api.EventTimes | None = getattr(join, "times", None)
    functions: dict[str, object] = {}
    if times is not None:
        functions = {"left_time": times.left, "right_time": times.right}
    elif (deleted := getattr(join, "deleted", None)) is not None:
        functions = {"deleted": deleted}
    first = getattr(join, "table_first", False)
    if not isinstance(first, bool):
        sentence = f"{label}: table_first is {describe(first)}; expected a bool"
        problems.add(place_of(join), sentence)
    for of, function in functions.items():
        if callable(function):
            problems.check_arity(function, 1, f"{label}: {of}", "message")
            continue
        sentence = f"{label}: {of} is {describe(function)}; expected a function"
        problems.add(place_of(join), sentence)
    if len(problems.messages) > before:
        return None
    made = _join(join, times)
    return ResolvedWindows(join.name, made if joined.is_left else made.right(), place_of(join))


def _join(
    join: api.Join[Any, Any, Any], times: api.EventTimes | None
) -> TableJoin | AsOfJoin | IntervalJoin:
    """Return *join* as a step of its left input."""
    left: Time = arrival if times is None else times.left
    right: Time = arrival if times is None else times.right
    delay_ns = 0 if times is None else times.delay_ns
    given = (join.function, join.how == "left", left, right, True)
    if isinstance(join, api.TableJoin):
        deleted = is_kept if join.deleted is None else join.deleted
        return TableJoin(*given, join.ttl_ns, deleted, join.table_first)
    if isinstance(join, api.AsOfJoin):
        return AsOfJoin(*given, join.tolerance_ns, delay_ns)
    assert isinstance(join, api.IntervalJoin)
    return IntervalJoin(*given, times is not None, join.before_ns, join.after_ns, delay_ns)
