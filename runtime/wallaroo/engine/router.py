"""The first stage: from frames to messages grouped by key and bucket.

Where no stateless step comes before the key, the payloads themselves cross the exchange and are
decoded once more behind it: that costs a tenth of pickling the messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from wallaroo.api.place import place_of
from wallaroo.engine.packing import Group, Runs, packed_group, problem_of_pickling
from wallaroo.engine.ports import Chunk
from wallaroo.engine.program import Program, Way
from wallaroo.engine.results import Named, NamedStep, TaskResults
from wallaroo.engine.steps import applied, emit, through
from wallaroo.model.application import StateCompute


class Router:
    """The first stage of a program, over chunks of the journal.

    Args:
        program: What to run.
        results: Takes the outputs of pipelines without a stateful step, and what is set aside.
    """

    def __init__(self, program: Program, results: TaskResults) -> None:
        self._program = program
        self._results = results

    def route(self, chunks: Iterable[Chunk]) -> dict[int, bytes]:
        """Run the first stage over *chunks*.

        Returns:
            For each bucket that gets something, what `Worker.run` takes.
        """
        by_partition: list[dict[Any, Runs]] = [{} for _ in self._program.partitions]
        for chunk in chunks:
            ways = self._program.ways_of_source[chunk.source]
            payloads = ways[0].source.framing.split(chunk.data)
            for way in ways:
                if way.state is None:
                    self._finish(way, payloads)
                    continue
                number = self._program.partition_numbers[way.state.partition]
                _append(by_partition[number], way.number, self._grouped(way, way.state, payloads))
        return self._packed(by_partition)

    def _finish(self, way: Way, payloads: list[bytes]) -> None:
        messages = self._decoded(way, payloads)
        emit(way, through(way, way.before, messages, self._results), self._results)

    def _decoded(self, way: Way, payloads: list[bytes]) -> list[Any]:
        return applied(way, _decoder(way), way.source.decode, payloads, self._results)

    def _grouped(self, way: Way, step: StateCompute, payloads: list[bytes]) -> dict[Any, list[Any]]:
        """Items by key: payloads where nothing comes before the key, else messages."""
        groups: dict[Any, list[Any]] = defaultdict(list)
        key_of = step.key
        if way.ships_payloads:
            decode = way.source.decode
            for payload in payloads:
                try:
                    message = decode(payload)
                except (Exception, SystemExit) as error:
                    self._results.failed(way, _decoder(way), payload, error)
                    continue
                if message is None:
                    continue
                try:
                    groups[key_of(message)].append(payload)
                except (Exception, SystemExit) as error:
                    self._key_failed(way, step, payload, error)
        else:
            messages = self._decoded(way, payloads)
            for message in through(way, way.before, messages, self._results):
                try:
                    groups[key_of(message)].append(message)
                except (Exception, SystemExit) as error:
                    self._key_failed(way, step, message, error)
        return self._listed(step, groups)

    def _key_failed(self, way: Way, step: StateCompute, item: Any, error: BaseException) -> None:
        # finding the place costs more than all the rest of a small chunk: only where it is told
        key_step = NamedStep(f"key of {step.name}", place_of(step.key))
        self._results.failed(way, key_step, item, error)

    def _listed(self, step: StateCompute, groups: dict[Any, list[Any]]) -> dict[Any, list[Any]]:
        """*groups* without the keys that the partition does not list; those are counted."""
        partition = self._program.application.partitions[step.partition]
        if partition.keys is None or groups.keys() <= partition.keys:
            return groups
        for key in groups.keys() - partition.keys:
            self._results.tally.add_unknown_key(partition.name, key, len(groups.pop(key)))
        return groups

    def _packed(self, by_partition: list[dict[Any, Runs]]) -> dict[int, bytes]:
        groups: dict[int, Group] = defaultdict(list)
        for number, runs_of_key in enumerate(by_partition):
            for key, runs in runs_of_key.items():
                try:
                    bucket = self._program.bucket_of(key)
                except Exception:  # a key that does not pickle: its messages are told one by one
                    self._only_packable([(number, key, runs)])
                    continue
                groups[bucket].append((number, key, runs))
        packed: dict[int, bytes] = {}
        for bucket, group in groups.items():
            try:
                packed[bucket] = packed_group(group)
            except Exception:
                packed[bucket] = packed_group(self._only_packable(group))
        return packed

    def _only_packable(self, group: Group) -> Group:
        """*group* without the messages that do not pickle; those are set aside."""
        kept: Group = []
        for number, key, runs in group:
            kept_runs: Runs = []
            for way_number, items in runs:
                way = self._program.ways[way_number]
                assert way.state is not None
                kept_runs.append((way_number, []))
                for item in items:
                    if (error := problem_of_pickling(key, item)) is None:
                        kept_runs[-1][1].append(item)
                    else:
                        self._results.failed(way, way.state, item, error)
            kept.append((number, key, kept_runs))
        return kept


def _decoder(way: Way) -> Named:
    return NamedStep("decoder", way.source.place)


def _append(runs_of_key: dict[Any, Runs], way: int, groups: dict[Any, list[Any]]) -> None:
    """Put *groups*, which arrived after all that is in *runs_of_key*, behind it."""
    for key, items in groups.items():
        runs = runs_of_key.get(key)
        if runs is None:
            runs_of_key[key] = [(way, items)]
        elif runs[-1][0] == way:
            runs[-1][1].extend(items)
        else:
            runs.append((way, items))
