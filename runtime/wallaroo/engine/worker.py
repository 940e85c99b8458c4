"""The second stage: state computations, one key at a time, in order of arrival."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, MutableMapping, Sequence
from typing import Any

from wallaroo.engine.packing import Runs, unpacked_group
from wallaroo.engine.program import Program, Way
from wallaroo.engine.results import TaskResults
from wallaroo.engine.steps import emit, through

Entities = MutableMapping[Any, Any]
"""State entities of a partition by key."""

_MISSING = object()


class Worker:
    """The second stage of a program, over one bucket at a time.

    Args:
        program: What to run.
        results: Takes outputs and what is set aside.
    """

    def __init__(self, program: Program, results: TaskResults) -> None:
        self._program = program
        self._results = results

    def run(self, packed: Iterable[bytes], entities: Sequence[Entities]) -> list[dict[Any, Any]]:
        """Run the second stage over what routers sent to a bucket, in order of arrival.

        Args:
            packed: Results of `Router.route` for the bucket.
            entities: The bucket's entities by partition number; new ones are added to it.

        Returns:
            The entities that changed, by partition number and key.
        """
        changed: list[dict[Any, Any]] = [{} for _ in entities]
        for blob in packed:
            outputs: dict[int, Runs] = defaultdict(list)
            for number, key, runs in unpacked_group(blob):
                entity = entities[number].get(key, _MISSING)
                if entity is _MISSING:
                    try:
                        entity = self._program.partitions[number].new_entity()
                    except (Exception, SystemExit) as error:
                        self._no_entity(runs, error)
                        continue
                    entities[number][key] = entity
                for way_number, items in runs:
                    way = self._program.ways[way_number]
                    produced = _last_run(outputs[way.tail], way_number)
                    if self._compute(way, items, entity, produced):
                        changed[number][key] = entity
            for produced_runs in outputs.values():
                self._finish(produced_runs)
        return changed

    def _finish(self, runs: Runs) -> None:
        for number, produced in runs:
            way = self._program.ways[number]
            emit(way, through(way, way.after, produced, self._results), self._results)

    def _no_entity(self, runs: Runs, error: BaseException) -> None:
        for number, items in runs:
            way = self._program.ways[number]
            assert way.state is not None
            for item in items:
                self._results.failed(way, way.state, item, error)

    def _compute(self, way: Way, items: list[Any], entity: Any, outputs: list[Any]) -> bool:
        """Run the stateful step over *items* of one key; tells whether the entity changed."""
        step = way.state
        assert step is not None
        function, multi, append = step.function, step.multi, outputs.append
        tells_save, changed = step.tells_save, not step.tells_save
        decode = way.source.decode if way.ships_payloads else _itself
        for item in items:
            try:
                result = function(decode(item), entity)
                if tells_save:
                    result, save = result
                    if save:
                        changed = True
                if result is None:
                    continue
                if multi:
                    outputs.extend(output for output in result if output is not None)
                else:
                    append(result)
            except (Exception, SystemExit) as error:
                changed = True  # it may have changed the entity before it raised
                self._results.failed(way, step, item, error)
        return changed


def _last_run(runs: Runs, way: int) -> list[Any]:
    """The list that what *way* produces next belongs in."""
    if not runs or runs[-1][0] != way:
        runs.append((way, []))
    return runs[-1][1]


def _itself(item: Any) -> Any:
    return item
