"""User code over batches: from frames to messages grouped by key, and over their state entities.

An application runs in two stages with Spark's exchange between them. `Router` is the first: it
decodes, runs the stateless steps, finds keys and groups what goes to each bucket. `Worker` is the
second: it runs the state computations in order of arrival and encodes their outputs. Where no
stateless step comes before the key, the payloads themselves cross the exchange and are decoded once
more behind it: that costs a tenth of pickling the messages.

An exception of user code sets aside the one message on which it was raised.
"""

from __future__ import annotations

import marshal
import pickle
import traceback
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from wallaroo.api.place import Place, place_of
from wallaroo.engine.ports import Chunk, Outputs, SetAside, Tally
from wallaroo.errors import ApplicationError
from wallaroo.model.application import Application, Compute, Sink, Source, StateCompute
from wallaroo.model.keys import bucket_of

_PLAIN = {bytes, str, int, float, bool, type(None)}
"""Types that `marshal` gives back as they were: no subclasses, nothing mutable."""
_BYTES = {bytes}
_MARSHALLED, _PICKLED = b"m", b"p"
_MAX_CACHED_KEYS = 1 << 20

Runs = list[tuple[int, list[Any]]]
"""What one key gets: in order of arrival, the number of a way and items that go that way."""
Group = list[tuple[int, Any, Runs]]
"""What one bucket gets: (number of a state partition, key, runs)."""
Entities = MutableMapping[Any, Any]
"""State entities of a partition by key."""


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
        self.partitions = tuple(application.partitions.values())
        self.partition_numbers = {p.name: number for number, p in enumerate(self.partitions)}
        self.ways = tuple(self._way(number) for number in range(len(application.pipelines)))
        self.ways_of_source = [
            [way for way in self.ways if way.source is source] for source in application.sources
        ]

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
        return Way(
            number,
            pipeline.name,
            pipeline.source,
            tuple(step for step in plain[:cut] if step),
            stateful[0] if stateful else None,
            tuple(step for step in plain[cut:] if step),
            tuple((indices[sink], sink) for sink in pipeline.sinks),
        )


class Named(Protocol):
    """A part of a pipeline that an error can name."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def place(self) -> Place: ...  # noqa: D102


class _Step(NamedTuple):
    name: str
    place: Place


class TaskResults:
    """Outputs of one task by sink, and what it has to report.

    Args:
        deliver: Called with outputs whenever enough have come together, and by `close`.
    """

    FLUSH_BYTES = 1024 * 1024
    """Bytes of outputs that a task collects before it delivers them: bounds its memory, and what
    a gateway that died has to send again."""

    def __init__(self, deliver: Callable[[Sequence[Outputs], Tally], None]) -> None:
        self.tally = Tally()
        self._deliver = deliver
        self._held: dict[int, list[bytes]] = defaultdict(list)
        self._held_bytes = 0
        self._delivered = False

    def add(self, sink: int, outputs: list[bytes]) -> None:
        """Take *outputs* for *sink*, in order."""
        if not outputs:
            return
        self._held[sink] += outputs
        self._held_bytes += sum(map(len, outputs))
        if self._held_bytes >= self.FLUSH_BYTES:
            self._flush()

    def close(self, *, always: bool = False) -> bool:
        """Deliver what is held, if anything or *always*; tells whether anything ever was."""
        if self._held_bytes or self.tally or (always and not self._delivered):
            self._flush()
        return self._delivered

    def failed(self, way: Way, step: Named, message: Any, error: BaseException) -> None:
        """Set *message* aside: user code raised *error* on it in *step*."""
        text = f"{type(error).__name__}: {error}"[:500]
        shown = bytes(message[:60]) if isinstance(message, (bytes, bytearray)) else message
        try:
            printable = repr(shown)[:200]
        except Exception as unprintable:
            printable = f"<{type(message).__name__} whose repr raises {unprintable!r}>"[:200]
        self.tally.add_set_aside(
            SetAside(way.pipeline, step.name, _place_of_error(error, step), text, printable)
        )

    def _flush(self) -> None:
        outputs = [
            Outputs(sink, array("I", map(len, held)).tobytes(), b"".join(held))
            for sink, held in self._held.items()
        ]
        self._deliver(outputs, self.tally)
        self._delivered = True
        self.tally = Tally()
        self._held.clear()
        self._held_bytes = 0


class Router:
    """The first stage of a program, over chunks of the journal.

    Args:
        program: What to run.
        results: Takes the outputs of pipelines without a stateful step, and what is set aside.
    """

    def __init__(self, program: Program, results: TaskResults) -> None:
        self._program = program
        self._results = results
        self._bucket_of_key: dict[Any, int] = {}

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
        emit(way, _through(way, way.before, messages, self._results), self._results)

    def _decoded(self, way: Way, payloads: list[bytes]) -> list[Any]:
        return _applied(way, _decoder(way), way.source.decode, payloads, self._results)

    def _grouped(self, way: Way, step: StateCompute, payloads: list[bytes]) -> dict[Any, list[Any]]:
        """Items by key: payloads where nothing comes before the key, else messages."""
        groups: dict[Any, list[Any]] = defaultdict(list)
        key_of, key_step = step.key, _Step(f"key of {step.name}", place_of(step.key))
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
                    self._results.failed(way, key_step, payload, error)
        else:
            messages = self._decoded(way, payloads)
            for message in _through(way, way.before, messages, self._results):
                try:
                    groups[key_of(message)].append(message)
                except (Exception, SystemExit) as error:
                    self._results.failed(way, key_step, message, error)
        return self._listed(step, groups)

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
        known, buckets = self._bucket_of_key, self._program.buckets
        if len(known) > _MAX_CACHED_KEYS:
            known.clear()
        for number, runs_of_key in enumerate(by_partition):
            for key, runs in runs_of_key.items():
                bucket = known.get(key)
                if bucket is None:
                    bucket = known[key] = bucket_of(key, buckets)
                groups[bucket].append((number, key, runs))
        return {bucket: _packed_group(group) for bucket, group in groups.items()}


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
            outputs: dict[int, list[Any]] = defaultdict(list)
            for number, key, runs in _unpacked_group(blob):
                entity = entities[number].get(key, _MISSING)
                if entity is _MISSING:
                    try:
                        entity = self._program.partitions[number].new_entity()
                    except (Exception, SystemExit) as error:
                        self._no_entity(runs, error)
                        continue
                    entities[number][key] = entity
                for way, items in runs:
                    if self._compute(self._program.ways[way], items, entity, outputs[way]):
                        changed[number][key] = entity
            for way, produced in outputs.items():
                finished = self._program.ways[way]
                messages = _through(finished, finished.after, produced, self._results)
                emit(finished, messages, self._results)
        return changed

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


def _itself(item: Any) -> Any:
    return item


_MISSING = object()


def _decoder(way: Way) -> Named:
    return _Step("decoder", way.source.place)


def emit(way: Way, messages: list[Any], results: TaskResults) -> None:
    """Encode *messages* for each sink of *way*."""
    if not messages:
        return
    for index, sink in way.sinks:
        encoded = _applied(way, _Step("encoder", sink.place), sink.encode, messages, results)
        if not _BYTES.issuperset(map(type, encoded)):
            encoded = _as_bytes(way, sink, encoded, results)
        results.add(index, encoded)


def _as_bytes(way: Way, sink: Sink, encoded: list[Any], results: TaskResults) -> list[bytes]:
    made: list[bytes] = []
    for output in encoded:
        if isinstance(output, str):
            try:
                made.append(output.encode())
            except UnicodeEncodeError as error:  # half of a surrogate pair
                results.failed(way, _Step("encoder", sink.place), output, error)
        elif isinstance(output, (bytes, bytearray, memoryview)):
            made.append(bytes(output))
        else:
            problem = TypeError(f"the encoder returned {type(output).__name__}, and bytes are due")
            results.failed(way, _Step("encoder", sink.place), output, problem)
    return made


def _through(
    way: Way, steps: Sequence[Compute], messages: list[Any], results: TaskResults
) -> list[Any]:
    for step in steps:
        apply = _applied_multi if step.multi else _applied
        messages = apply(way, step, step.function, messages, results)
    return messages


def _applied(
    way: Way,
    step: Named,
    function: Callable[[Any], Any],
    messages: Iterable[Any],
    results: TaskResults,
) -> list[Any]:
    made: list[Any] = []
    append = made.append
    for message in messages:
        try:
            result = function(message)
        except (Exception, SystemExit) as error:
            results.failed(way, step, message, error)
            continue
        if result is not None:
            append(result)
    return made


def _applied_multi(
    way: Way,
    step: Named,
    function: Callable[[Any], Any],
    messages: Iterable[Any],
    results: TaskResults,
) -> list[Any]:
    made: list[Any] = []
    for message in messages:
        try:
            several = function(message)
            if several is not None:
                made.extend(result for result in several if result is not None)
        except (Exception, SystemExit) as error:
            results.failed(way, step, message, error)
    return made


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


def _packed_group(group: Group) -> bytes:
    plain = all(
        type(key) in _PLAIN and all(_PLAIN.issuperset(map(type, items)) for _, items in runs)
        for _, key, runs in group
    )
    if plain:
        return _MARSHALLED + marshal.dumps(group)
    return _PICKLED + pickle.dumps(group, protocol=5)


def _unpacked_group(blob: bytes) -> Group:
    load = marshal.loads if blob[:1] == _MARSHALLED else pickle.loads
    group: Group = load(memoryview(blob)[1:])
    return group


def _place_of_error(error: BaseException, step: Named) -> str:
    """The deepest line of the traceback, or where *step* is defined if no user code is in it."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or frames[-1].filename == __file__:
        return str(step.place)
    return str(Place(frames[-1].filename, frames[-1].lineno or 0))
