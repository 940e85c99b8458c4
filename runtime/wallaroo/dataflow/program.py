"""Prepares an application to run in stages, with an exchange between them.

The first stage (`router`) decodes, runs stateless steps, extracts keys and sends each message to
the bucket of its key. One or more levels (`worker`) follow. Each runs the state computations of
some state partitions, in order of arrival, and the steps after them; messages that then need the
state of another key move to a later level. `levels` assigns partitions to levels.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wallaroo.dataflow.levels import Hop, Levels
from wallaroo.dataflow.message_snapshots import Carrier
from wallaroo.dataflow.rows import buckets_of
from wallaroo.model.application import (
    Application,
    Branch,
    Compute,
    Pipeline,
    Stateful,
    Stateless,
    StatePartition,
    WindowCompute,
)
from wallaroo.model.endpoints import Sink, Source
from wallaroo.model.keys.buckets import SAFE, bucket_of, is_safe
from wallaroo.model.order import is_by_event

_MAX_KNOWN_KEYS = 1 << 16
"""Number of keys whose buckets are cached; more would not fit into the processor's cache."""


@dataclass(frozen=True)
class OperatorChain:
    """Stateless steps of a pipeline, and what follows them: forks, a stage, or the sinks."""

    pipeline: str
    steps: tuple[Stateless, ...]
    forks: tuple[OperatorChain, ...]
    """Chains that follow, each of which receives every message."""
    stage: int | None
    """Number of the stage that follows."""
    sinks: tuple[tuple[int, Sink, str], ...]
    """Indices of sinks in the application, the sinks, and what their encoders are called; empty
    unless the pipeline ends here."""
    keeps: bool
    """Whether outputs keep something of the records that its messages come from."""
    branch: int
    """Number of the branch."""

    @property
    def is_plain(self) -> bool:
        """Whether it consists of computations of single messages only, without forks."""
        return not self.forks and all(
            isinstance(step, Compute) and not step.gathers for step in self.steps
        )


@dataclass(frozen=True)
class StatefulStage:
    """A stateful step, to which messages are sent by key, and the chain after it."""

    number: int
    pipeline: str
    step: Stateful
    partition: int
    """Number of the state partition."""
    after: OperatorChain
    late: OperatorChain | None
    """The chain for messages that come too late for windows; None to drop them."""
    source: Source
    """Source of the messages that arrive here."""
    fresh: bool
    """Whether the messages have not passed through state yet."""
    at_once: bool
    """Whether it directly follows the decoder."""
    keeps: bool
    """Whether outputs keep something of the records that the messages come from."""


@dataclass(frozen=True)
class SourcePath:
    """The part of a pipeline before any state."""

    number: int
    pipeline: str
    source: Source
    chain: OperatorChain


class Program:
    """An executable application: paths, stages, numbered partitions and buckets.

    Args:
        application: The application.
        buckets: Number of buckets that keys are distributed to; fixed for the life of the state.
    """

    def __init__(self, application: Application, buckets: int) -> None:
        self.application = application
        self.buckets = buckets
        self._bucket_of_key: dict[Any, int] = {}
        self.partitions: tuple[StatePartition, ...] = tuple(application.partitions.values())
        self.partition_numbers = {p.name: number for number, p in enumerate(self.partitions)}
        self._sink_indices = {sink: index for index, sink in enumerate(application.sinks)}
        self.carrier = Carrier(application.serialization)
        """Takes and restores snapshots of messages."""
        self._hops: list[Hop] = []
        self.stages: list[StatefulStage] = []
        self.source_paths = [
            self._source_path(number) for number in range(len(application.pipelines))
        ]
        self.paths_of_source = [
            [source_path for source_path in self.source_paths if source_path.source is source]
            for source in application.sources
        ]
        self.keeps = any(source_path.chain.keeps for source_path in self.source_paths)
        """Whether outputs keep something of the records that they come from."""
        self.levels = Levels(len(self.partitions), self._hops)
        self.stamped = frozenset(
            number for number in range(len(self.partitions)) if self._needs_stamps(number)
        )
        """Partitions whose messages carry stamps, because their order of arrival is not implicit,
        or because of what follows them."""
        self.by_event = frozenset(
            stage.partition for stage in self.stages if is_by_event(stage.step)
        )
        """Partitions that go by event time."""
        sources = application.sources
        self.source_of = {stage.partition: sources.index(stage.source) for stage in self.stages}
        """Index of a source of each partition; those of a partition with event time meet in it."""
        self.repeated = self._repeatable()
        """Stages to which payloads cross, because their decoders are declared repeatable."""

    @property
    def timed(self) -> frozenset[int]:
        """Partitions that depend on the clock."""
        return frozenset(
            n
            for n, partition in enumerate(self.partitions)
            if partition.windows or partition.timing
        )

    def bucket_of(self, key: Any) -> int:
        """Return the bucket of *key*.

        Raises:
            Exception: It is not a valid key.
        """
        if type(key) not in SAFE and not is_safe(key):
            # it may equal a cached key without being valid itself
            return bucket_of(key, self.buckets)
        bucket = self._bucket_of_key.get(key)
        if bucket is None:
            if len(self._bucket_of_key) >= _MAX_KNOWN_KEYS:
                self._bucket_of_key.clear()
            bucket = self._bucket_of_key[key] = bucket_of(key, self.buckets)
        return bucket

    def buckets_of(self, keys: Sequence[Any]) -> list[int]:
        """Return the bucket of each key, as `bucket_of` does."""
        known = self._bucket_of_key
        may_be_known = len(known) < _MAX_KNOWN_KEYS and SAFE.issuperset(map(type, keys))
        if may_be_known:
            with contextlib.suppress(KeyError):
                return list(map(known.__getitem__, keys))
        found = buckets_of(keys, self.buckets, self.bucket_of)
        if may_be_known:
            known.update(zip(keys, found, strict=True))
        return found

    def bucket_in(self, partition: int, key: Any) -> int:
        """Return the bucket of *key* in *partition*; the same for all keys if it is in a cycle.

        Raises:
            Exception: It is not a valid key.
        """
        serial = self.levels.serial_number(partition)
        bucket = self.bucket_of(key)  # in any case, to detect invalid keys
        return bucket if serial is None else serial % self.buckets

    def restores(self, stage: StatefulStage) -> Callable[[Any], Any] | None:
        """Return the function that restores messages that cross to *stage*; None if unnecessary."""
        return stage.source.decode if stage.number in self.repeated else self.carrier.restore

    def partitions_at(self, level: int) -> list[int]:
        """Return the numbers of the partitions of *level*."""
        return [n for n in range(len(self.partitions)) if self.levels.level(n) == level]

    def _source_path(self, number: int) -> SourcePath:
        pipeline = self.application.pipelines[number]
        keeps = pipeline.keeps_inputs
        chain = self._chain(pipeline, pipeline.trunk, None, keyed=False, keeps=keeps)
        return SourcePath(number, pipeline.name, pipeline.source, chain)

    def _chain(
        self,
        pipeline: Pipeline,
        branch: Branch,
        previous: int | None,
        *,
        keyed: bool,
        keeps: bool,
        waits: bool = False,
    ) -> OperatorChain:
        """Return the beginning of *branch*, up to its first stateful step.

        Args:
            pipeline: The pipeline.
            branch: The remaining steps.
            previous: Partition from which the messages come, if any.
            keyed: Whether they keep their key from there.
            keeps: Whether outputs keep something of the records that they come from.
            waits: Whether they have waited since then.
        """
        steps: list[Stateless] = []
        for place, step in enumerate(branch.steps):
            if isinstance(step, Stateful):
                rest = branch.after(place)
                number = self.partition_numbers[step.partition]
                if previous is not None:
                    same_key = keyed and step.key is None
                    self._hops.append(Hop(previous, number, same_key=same_key, waits=waits))
                at_once = branch is pipeline.trunk and not steps
                stage = self._add_stage(
                    pipeline, step, rest, fresh=previous is None, at_once=at_once, keeps=keeps
                )
                return OperatorChain(
                    pipeline.name, tuple(steps), (), stage, (), keeps, branch.number
                )
            steps.append(step)
            keyed = keyed and isinstance(step, Compute)
            waits = waits or (isinstance(step, Compute) and step.gathers)
        forks = tuple(
            self._chain(pipeline, fork, previous, keyed=keyed, keeps=keeps, waits=waits)
            for fork in branch.forks
        )
        sinks = tuple(
            (self._sink_indices[sink], sink, pipeline.encoder_of(sink))
            for sink in pipeline.sinks_of(branch)
        )
        return OperatorChain(pipeline.name, tuple(steps), forks, None, sinks, keeps, branch.number)

    def _add_stage(
        self,
        pipeline: Pipeline,
        step: Stateful,
        rest: Branch,
        *,
        fresh: bool,
        at_once: bool,
        keeps: bool,
    ) -> int:
        partition = self.partition_numbers[step.partition]
        gathers = isinstance(step, WindowCompute)
        after = self._chain(pipeline, rest, partition, keyed=True, keeps=keeps and not gathers)
        branch, late = step.late if isinstance(step, WindowCompute) else None, None
        if branch is not None:
            late = self._chain(pipeline, branch, partition, keyed=True, keeps=keeps)
        number = len(self.stages)
        self.stages.append(
            StatefulStage(
                number,
                pipeline.name,
                step,
                partition,
                after,
                late,
                pipeline.source,
                fresh,
                at_once,
                keeps,
            )
        )
        return number

    def _repeatable(self) -> frozenset[int]:
        if self.application.serialization is not None:  # its results must be used
            return frozenset()
        return frozenset(
            stage.number
            for stage in self.stages
            if stage.at_once and stage.partition not in self.stamped and stage.source.repeatable
        )

    def _needs_stamps(self, partition: int) -> bool:
        stages = [stage for stage in self.stages if stage.partition == partition]
        return (
            partition in self.timed
            or any(hop.to == partition for hop in self._hops)
            or any(stage.step.key is None for stage in stages)
            or not all(stage.after.is_plain and stage.after.stage is None for stage in stages)
            or not all(self._is_reached_plainly(stage) for stage in stages)
            or any(
                sum(
                    source_path.chain.stage in {stage.number for stage in stages}
                    for source_path in source_paths
                )
                > 1
                for source_paths in self.paths_of_source
            )
        )

    def _is_reached_plainly(self, stage: StatefulStage) -> bool:
        return any(
            source_path.chain.stage == stage.number and source_path.chain.is_plain
            for source_path in self.source_paths
        )
