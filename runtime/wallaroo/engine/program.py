"""An application made ready to run in two stages, with Spark's exchange between them.

The first stage (`router`) decodes, runs the stateless steps, finds keys and groups what goes to
each bucket of keys. The second (`worker`) runs the state computations in order of arrival and
encodes their outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wallaroo.errors import ApplicationError
from wallaroo.model.application import Application, Compute, Sink, Source, StateCompute
from wallaroo.model.keys import bucket_of

_MAX_KNOWN_KEYS = 1 << 20
"""Keys whose buckets are remembered: about 100 MiB at the most."""


@dataclass(frozen=True)
class Way:
    """One pipeline, cut where its messages cross from the first stage to the second."""

    number: int
    pipeline: str
    source: Source
    before: tuple[Compute, ...]
    """Stateless steps before the exchange."""
    state: StateCompute | None
    """The stateful step, behind the exchange; None where the pipeline has none."""
    after: tuple[Compute, ...]
    """Stateless steps behind the stateful one."""
    sinks: tuple[tuple[int, Sink], ...]
    """Sinks with their indices in the application."""
    tail: int
    """Number of the first way with the same sinks: their outputs stay in order."""

    @property
    def ships_payloads(self) -> bool:
        """Whether payloads cross the exchange, and not messages."""
        return not self.before


class Program:
    """An application made ready to run: its ways, its partitions by number, its buckets.

    Args:
        application: What to run.
        buckets: Number of buckets that keys are spread over; fixed for the life of the state.

    Raises:
        ApplicationError: A pipeline has more than one stateful step.
    """

    def __init__(self, application: Application, buckets: int) -> None:
        self.application = application
        self.buckets = buckets
        self._bucket_of_key: dict[Any, int] = {}
        self.partitions = tuple(application.partitions.values())
        self.partition_numbers = {p.name: number for number, p in enumerate(self.partitions)}
        self.ways: tuple[Way, ...] = ()
        for number in range(len(application.pipelines)):
            self.ways += (self._way(number),)
        self.ways_of_source = [
            [way for way in self.ways if way.source is source] for source in application.sources
        ]

    def bucket_of(self, key: Any) -> int:
        """The bucket of *key*.

        Raises:
            Exception: The key cannot be hashed, or does not pickle.
        """
        bucket = self._bucket_of_key.get(key)
        if bucket is None:
            if len(self._bucket_of_key) >= _MAX_KNOWN_KEYS:
                self._bucket_of_key.clear()
            bucket = self._bucket_of_key[key] = bucket_of(key, self.buckets)
        return bucket

    @property
    def stateful(self) -> bool:
        """Whether any pipeline has a stateful step."""
        return any(way.state is not None for way in self.ways)

    def _way(self, number: int) -> Way:
        pipeline = self.application.pipelines[number]
        stateful = [step for step in pipeline.steps if isinstance(step, StateCompute)]
        if len(stateful) > 1:
            msg = (
                f"{stateful[1].place}: pipeline {pipeline.name!r}, step {stateful[1].name!r}: "
                "this engine runs one stateful step in a pipeline, and this is the second"
            )
            raise ApplicationError(msg)
        cut = pipeline.steps.index(stateful[0]) if stateful else len(pipeline.steps)
        plain = [step if isinstance(step, Compute) else None for step in pipeline.steps]
        indices = {sink: index for index, sink in enumerate(self.application.sinks)}
        after = tuple(step for step in plain[cut:] if step)
        sinks = tuple((indices[sink], sink) for sink in pipeline.sinks)
        alike = [way.number for way in self.ways if way.sinks == sinks]
        return Way(
            number,
            pipeline.name,
            pipeline.source,
            tuple(step for step in plain[:cut] if step),
            stateful[0] if stateful else None,
            after,
            sinks,
            alike[0] if alike and sinks else number,
        )
