"""An application made ready to run in stages, with Spark's exchange between them.

The first stage (`router`) decodes, runs stateless steps, finds keys and sends each message to the
bucket of its key. Behind it come one or more levels (`worker`): each runs the state computations
of some state partitions, in order of arrival, and the steps behind them; what then needs state of
another key goes on to a later level. `levels` tells which partition is run at which level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wallaroo.dataflow.levels import Hop, Levels
from wallaroo.dataflow.snapshots import Carrier
from wallaroo.model.application import (
    Application,
    Branch,
    Compute,
    Pipeline,
    Sink,
    Source,
    Stateful,
    Stateless,
    StatePartition,
)
from wallaroo.model.keys.buckets import SAFE, bucket_of, is_safe
from wallaroo.model.purity import is_repeatable
from wallaroo.model.savable import Codec, codec_of

_MAX_KNOWN_KEYS = 1 << 16
"""Keys whose buckets are remembered: more of them would not stay in the processor's cache."""


@dataclass(frozen=True)
class OperatorChain:
    """Stateless steps of a pipeline, and what comes behind them: forks, a leg, or the sinks."""

    pipeline: str
    steps: tuple[Stateless, ...]
    forks: tuple[OperatorChain, ...]
    """Stretches that go on with every message."""
    leg: int | None
    """Number of the leg that comes next."""
    sinks: tuple[tuple[int, Sink], ...]
    """Sinks with their indices in the application; none where the pipeline goes on."""

    @property
    def is_plain(self) -> bool:
        """Whether it is computations, and then the sinks or a leg."""
        return not self.forks and all(isinstance(step, Compute) for step in self.steps)


@dataclass(frozen=True)
class StatefulStage:
    """A step with state, where messages of one key meet, and the stretch behind it."""

    number: int
    pipeline: str
    step: Stateful
    partition: int
    """Number of the state partition."""
    after: OperatorChain
    source: Source
    """Whose messages come this way."""
    fresh: bool
    """Whether no state has seen the messages before."""
    at_once: bool
    """Whether nothing comes between the decoder and it."""


@dataclass(frozen=True)
class SourcePath:
    """What the messages of a pipeline go through before any state."""

    number: int
    pipeline: str
    source: Source
    before: OperatorChain


class Program:
    """An application made ready to run: its ways, its legs, its partitions by number, its buckets.

    Args:
        application: What to run.
        buckets: Number of buckets that keys are spread over; fixed for the life of the state.
        repeated: Numbers of the legs to which payloads cross, to be decoded there once more; all
            processes of a run have to agree on them. None to find out which can be.
    """

    def __init__(
        self, application: Application, buckets: int, repeated: frozenset[int] | None = None
    ) -> None:
        self.application = application
        self.buckets = buckets
        self._bucket_of_key: dict[Any, int] = {}
        self.partitions: tuple[StatePartition, ...] = tuple(application.partitions.values())
        self.partition_numbers = {p.name: number for number, p in enumerate(self.partitions)}
        self._sink_indices = {sink: index for index, sink in enumerate(application.sinks)}
        self.carrier = Carrier(application.serialization)
        """Takes messages over to the workers of their keys."""
        self._hops: list[Hop] = []
        self.legs: list[StatefulStage] = []
        self.ways = [self._way(number) for number in range(len(application.pipelines))]
        self.ways_of_source = [
            [way for way in self.ways if way.source is source] for source in application.sources
        ]
        self.levels = Levels(len(self.partitions), self._hops)
        self.stamped = frozenset(
            number for number in range(len(self.partitions)) if self._needs_stamps(number)
        )
        """Partitions whose messages carry their place in the order of arrival, because it does
        not show by itself, or because of what comes behind them."""
        self.repeated = self._repeatable() if repeated is None else repeated
        """Legs to which payloads cross, because decoding them again gives nothing else."""
        self.sparse: set[int] = set()
        """Partitions that had few messages for a key in the last block; the exchange keeps it."""

    @property
    def timed(self) -> frozenset[int]:
        """Partitions for which the clock matters."""
        return frozenset(n for n, partition in enumerate(self.partitions) if partition.windows)

    def bucket_of(self, key: Any) -> int:
        """The bucket of *key*.

        Raises:
            Exception: It is not a valid key.
        """
        if type(key) not in SAFE and not is_safe(key):
            # it may be equal to a key that is known, and not be valid itself
            return bucket_of(key, self.buckets)
        bucket = self._bucket_of_key.get(key)
        if bucket is None:
            if len(self._bucket_of_key) >= _MAX_KNOWN_KEYS:
                self._bucket_of_key.clear()
            bucket = self._bucket_of_key[key] = bucket_of(key, self.buckets)
        return bucket

    def bucket_in(self, partition: int, key: Any) -> int:
        """The bucket of *key* in *partition*: one for all keys where one worker has to run them.

        Raises:
            Exception: It is not a valid key.
        """
        serial = self.levels.serial_number(partition)
        bucket = self.bucket_of(key)  # so that a bad key is found here in any case
        return bucket if serial is None else serial % self.buckets

    def restores(self, leg: StatefulStage) -> Callable[[Any], Any] | None:
        """What makes the message of what crosses to *leg*; None where that is the message."""
        return leg.source.decode if leg.number in self.repeated else self.carrier.restore

    def partitions_at(self, level: int) -> list[int]:
        """Numbers of the partitions that *level* runs."""
        return [n for n in range(len(self.partitions)) if self.levels.level(n) == level]

    def _way(self, number: int) -> SourcePath:
        pipeline = self.application.pipelines[number]
        before = self._stretch(pipeline, pipeline.trunk, None, keyed=False)
        return SourcePath(number, pipeline.name, pipeline.source, before)

    def _stretch(
        self, pipeline: Pipeline, branch: Branch, behind: int | None, *, keyed: bool
    ) -> OperatorChain:
        """The beginning of *branch*, up to its first step with state.

        Args:
            pipeline: Whose path it is.
            branch: What is still to come.
            behind: Partition that the messages come from, if any.
            keyed: Whether they have their key from there.
        """
        steps: list[Stateless] = []
        for place, step in enumerate(branch.steps):
            if isinstance(step, Stateful):
                rest = Branch(branch.steps[place + 1 :], branch.forks)
                number = self.partition_numbers[step.partition]
                if behind is not None:
                    self._hops.append(Hop(behind, number, same_key=keyed and step.key is None))
                at_once = branch is pipeline.trunk and not steps
                leg = self._leg(pipeline, step, rest, fresh=behind is None, at_once=at_once)
                return OperatorChain(pipeline.name, tuple(steps), (), leg, ())
            steps.append(step)
            keyed = keyed and isinstance(step, Compute)
        forks = tuple(self._stretch(pipeline, fork, behind, keyed=keyed) for fork in branch.forks)
        sinks = () if forks else tuple((self._sink_indices[s], s) for s in pipeline.sinks)
        return OperatorChain(pipeline.name, tuple(steps), forks, None, sinks)

    def _leg(
        self, pipeline: Pipeline, step: Stateful, rest: Branch, *, fresh: bool, at_once: bool
    ) -> int:
        partition = self.partition_numbers[step.partition]
        after = self._stretch(pipeline, rest, partition, keyed=True)
        number = len(self.legs)
        self.legs.append(
            StatefulStage(
                number, pipeline.name, step, partition, after, pipeline.source, fresh, at_once
            )
        )
        return number

    def _repeatable(self) -> frozenset[int]:
        if self.application.serialization is not None:  # what that makes of messages has to be seen
            return frozenset()
        return frozenset(
            leg.number
            for leg in self.legs
            if leg.at_once
            and leg.partition not in self.stamped
            and leg.step.key is not None
            and is_repeatable(leg.source.decode, leg.step.key)
        )

    def _needs_stamps(self, partition: int) -> bool:
        legs = [leg for leg in self.legs if leg.partition == partition]
        return (
            self.partitions[partition].windows is not None
            or any(hop.to == partition for hop in self._hops)
            or any(leg.step.key is None for leg in legs)
            or not all(leg.after.is_plain and leg.after.leg is None for leg in legs)
            or not all(self._is_reached_plainly(leg) for leg in legs)
            or any(
                sum(way.before.leg in {leg.number for leg in legs} for way in ways) > 1
                for ways in self.ways_of_source
            )
        )

    def _is_reached_plainly(self, leg: StatefulStage) -> bool:
        return any(way.before.leg == leg.number and way.before.is_plain for way in self.ways)


def codecs_of(program: Program) -> dict[int, Codec]:
    """Codecs by partition number, where the application says how to save its objects."""
    found = [codec_of(program.application, partition) for partition in program.partitions]
    return {number: codec for number, codec in enumerate(found) if codec is not None}
