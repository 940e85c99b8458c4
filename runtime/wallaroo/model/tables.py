"""Tables that are read before the messages that are joined with them: the order of the sources."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from wallaroo.api.places import Place
from wallaroo.model.application import Application, Branch, WindowCompute
from wallaroo.model.joins import TableJoin
from wallaroo.model.order import sources_in_order

_TOGETHER = (
    ", and sources that meet in a step with event time are read together, in the order of time"
)


class _Sides(NamedTuple):
    """The sources of a table join whose table is read first, by their indices."""

    step: WindowCompute
    left: set[int]
    right: set[int]


def tables_of(application: Application) -> dict[int, frozenset[int]]:
    """Return which sources have to be read to their ends before others, by the index of these."""
    found: dict[int, frozenset[int]] = {}
    for _, left, right in _joins(application):
        for source in left:
            found[source] = found.get(source, frozenset()) | right
    return found


def reading_order(application: Application) -> list[frozenset[int]]:
    """Return the sources by what is read together, tables before what is joined with them.

    Sources are together if they are read in the order of time.

    Raises:
        CycleError: Some would have to be read before themselves.
    """
    together = {index: group for group in sources_in_order(application) for index in group}
    groups = [together.get(n, frozenset({n})) for n in range(len(application.sources))]
    waits, sorter = tables_of(application), TopologicalSorter[frozenset[int]]()
    for index, group in enumerate(groups):
        sorter.add(group, *(groups[table] for table in waits.get(index, ())))
    return list(sorter.static_order())


def problems_of_tables(application: Application) -> Iterator[tuple[Place, str]]:
    """Yield why tables cannot be read first, each with its place."""
    joins, sources = _joins(application), application.sources
    for step, _, right in joins:
        for source in (sources[index] for index in sorted(right)):
            if not source.tells_end:
                yield (
                    step.place,
                    f"join {step.name!r} has table_first=True, but the table {source.name!r} "
                    f"({source.where}) has no end up to which it could be read first: read it from "
                    "a topic or a file, or omit table_first",
                )
    try:
        reading_order(application)
    except CycleError as error:
        groups: list[frozenset[int]] = error.args[1]
        cycle = frozenset[int]().union(*groups)
        its = [join for join in joins if join.left & cycle and join.right & cycle]
        names = " and ".join(repr(sources[index].name) for index in sorted(cycle))
        other = "itself" if len(cycle) == 1 else "each other"
        why = "" if max(map(len, groups)) == 1 else _TOGETHER
        yield (
            its[0].step.place,
            f"{' and '.join(f'join {join.step.name!r}' for join in its)} with table_first=True: "
            f"{names} would have to be read before {other}{why}; omit table_first",
        )


def _joins(application: Application) -> list[_Sides]:
    found: dict[str, _Sides] = {}
    for pipeline in application.pipelines:
        source = application.sources.index(pipeline.source)
        for step, join in _passed(pipeline.trunk):
            sides = found.setdefault(step.partition, _Sides(step, set(), set()))
            (sides.left if join.is_left else sides.right).add(source)
    return list(found.values())


def _passed(branch: Branch) -> Iterator[tuple[WindowCompute, TableJoin]]:
    """Yield the joins whose table is read first that messages of *branch* come to.

    Nothing comes out of a table join for the messages of the table.
    """
    for step in branch.steps:
        if isinstance(step, WindowCompute):
            if step.late is not None:
                yield from _passed(step.late)
            if isinstance(step.windows, TableJoin):
                if step.windows.table_first:
                    yield step, step.windows
                if not step.windows.is_left:
                    return
    for fork in branch.forks:
        yield from _passed(fork)
