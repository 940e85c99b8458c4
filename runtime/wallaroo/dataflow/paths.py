"""Paths of messages through stateless steps, forks and sinks, one message at a time.

Each message is processed to completion before the next, as in a loop of plain Python: whatever
steps share with each other or with state, an output is encoded as it was when it was yielded. A
path is a chain of closures, each of which calls the next. Per message, this costs little more than
a loop over a list of messages in each step.

If a step raises, its message is dead-lettered and the step emits nothing for it. A result of None
emits nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from wallaroo.api.places import place_of
from wallaroo.dataflow.current_input import CurrentInput
from wallaroo.dataflow.current_message import Role, has_role, knows_message
from wallaroo.dataflow.message_snapshots import waiting
from wallaroo.dataflow.packing import Stamp
from wallaroo.dataflow.program import OperatorChain, Program, StatefulStage
from wallaroo.dataflow.results import NOWHERE, Named, NamedStep, Origin, Owner, TaskResults
from wallaroo.dataflow.steps.gathering import Failed, Gathering
from wallaroo.model.application import Compute, KeyBy
from wallaroo.model.endpoints import Sink
from wallaroo.user_code.callers import runs_step, time_limited
from wallaroo.user_code.exceptions import short_repr
from wallaroo.wire.task_metrics import StepMetrics

At = int | Stamp | None
"""The origin of a message: its offset or its stamp; None if neither is known."""
Path = Callable[[At, Any, Any], None]
"""Processes a message: (origin, current key, message)."""

SAMPLE = 16
"""One in this number of messages that pass through a step individually is timed."""
_UNTIMED = SAMPLE - 1
"""A message is timed if none of these bits of its number are set."""
_NONE = -1
"""Number of the last message before the first one."""


@time_limited
class Paths:
    """Creates the paths of a program's operator chains.

    Args:
        program: The program.
        results: Collects outputs and failed messages.
        arrival: Returns the path for messages that arrive at a stage.
        current: The input of the message that is being processed.
        fresh: Whether the messages have not passed through state yet.
        here: Level whose stages must get each message before the next one is processed; None if
            all stages come later. Before them, no step collects messages.
    """

    def __init__(
        self,
        program: Program,
        results: TaskResults,
        arrival: Callable[[StatefulStage], Path],
        current: CurrentInput,
        *,
        fresh: bool,
        here: int | None = None,
    ) -> None:
        self._program = program
        self._results = results
        self._arrival = arrival
        self._current = current
        self._fresh = fresh
        self._here = here
        self._collecting: list[Callable[[], bool]] = []
        """Run what steps have collected, and return whether that was anything; last steps first."""
        self._counters: list[Callable[[], None]] = []

    def of(self, chain: OperatorChain, *, stamped: bool) -> Path:
        """Return the path through *chain* and everything that follows.

        Args:
            chain: The operator chain.
            stamped: Whether messages carry stamps, which must distinguish the outputs of a message.
        """
        path = self._end(chain, stamped=stamped)
        for step in reversed(chain.steps):
            if isinstance(step, KeyBy):
                path = self._keyed(chain, step, path)
            elif isinstance(step.function, Gathering) and not self._leads_here(chain):
                path = self._gathered(chain, step, step.function, path)
            elif step.multi:
                path = self._computed_multi(chain, step, path, stamped=stamped)
            else:
                path = self._computed(chain, step, path)
        return path

    def finish(self) -> None:
        """Run the messages that steps have collected; call it after the last message."""
        while any([run() for run in reversed(self._collecting)]):  # noqa: C419 - all of them
            continue

    def count(self) -> None:
        """Add the counts of the paths to the metrics."""
        for add_counts in self._counters:
            add_counts()

    def failed(self, owner: Owner, step: Named, message: Any, error: BaseException, at: At) -> None:
        """Dead-letter *message*, on which *step* of *owner* raised *error*."""
        self._results.failed(owner, step, message, error, self.origin(at))

    def origin(self, at: At) -> Origin:
        """Return the origin of a message."""
        if not self._fresh or at is None:
            return NOWHERE
        return Origin(None, at if isinstance(at, int) else at[0])

    def _end(self, chain: OperatorChain, *, stamped: bool) -> Path:
        """Return the path after the steps of *chain*."""
        if chain.stage is not None:
            return self._arrival(self._program.stages[chain.stage])
        if not chain.forks:
            return _each([self._encoded(chain, *sink) for sink in chain.sinks])
        forks = list(enumerate(self.of(fork, stamped=stamped) for fork in chain.forks))
        if not stamped:
            return _each([fork for _, fork in forks])

        def forked(at: At, key: Any, message: Any) -> None:
            assert isinstance(at, tuple)
            for number, fork in forks:
                fork((*at, number), key, message)

        return forked

    @knows_message("at", key="key", owner="chain", step="step")
    @runs_step("chain", "step")
    def _computed(self, chain: OperatorChain, step: Compute, then: Path) -> Path:
        function, failed, count = step.function, self.failed, self._count_of(chain, step)
        entered, dropped = _NONE, 0

        def computed(at: At, key: Any, message: Any) -> None:
            nonlocal entered, dropped
            entered += 1
            began = 0.0 if entered & _UNTIMED else perf_counter()
            try:
                result = function(message)
            except (Exception, SystemExit) as error:
                dropped += 1
                failed(chain, step, message, error, at)
                return
            if began:
                count.time(began)
            if result is None:
                dropped += 1
            else:
                then(at, key, result)

        def add_counts() -> None:
            nonlocal entered, dropped
            count.add(entered - _NONE, entered - _NONE - dropped)
            entered, dropped = _NONE, 0

        self._counters.append(add_counts)
        return computed

    @has_role(Role.COLLECTED)
    @knows_message("at", key="key", owner="chain", step="step", state_key="state_key")
    @runs_step("chain", "step")
    def _gathered(
        self, chain: OperatorChain, step: Compute, function: Gathering, then: Path
    ) -> Path:
        """Collect messages as they are now, and run many at a time; results keep the order."""
        failed, count, most = self.failed, self._count_of(chain, step), function.most
        fresh = self._fresh
        copied = self._program.carrier.copied
        current, keeps = self._current, chain.keeps
        collected: list[Any] = current.collecting() if keeps else []

        def gathered(at: At, key: Any, message: Any) -> None:
            try:
                message = waiting(copied, message)
            except (Exception, SystemExit) as error:
                count.add(1, 0)
                failed(chain, step, message, error, at)
                return
            collected.append((at, key, message))
            if len(collected) >= most:
                run_collected()

        def run_collected() -> bool:
            if not collected:
                return False
            taken = collected.copy()
            collected.clear()
            began = perf_counter()
            results = function.run([one[2] for one in taken])
            seconds = perf_counter() - began
            left = 0
            each = current.each(taken) if keeps else taken
            for (at, key, message), result in zip(each, results, strict=True):
                state_key = None if fresh else key  # noqa: F841 - see `knows_message`
                if type(result) is Failed:
                    failed(chain, step, message, result.error, at)
                elif result is not None:
                    left += 1
                    then(at, key, result)
            count.note(len(taken), left, seconds)
            return True

        self._collecting.append(run_collected)
        return gathered

    def _leads_here(self, chain: OperatorChain) -> bool:
        """Whether a stage of the level that is running follows *chain*."""
        if self._here is None:
            return False
        if chain.stage is not None:
            partition = self._program.stages[chain.stage].partition
            return self._program.levels.level(partition) == self._here
        return any(map(self._leads_here, chain.forks))

    @knows_message("at", key="key", owner="chain", step="step")
    @runs_step("chain", "step")
    def _computed_multi(
        self, chain: OperatorChain, step: Compute, then: Path, *, stamped: bool
    ) -> Path:
        function, failed, count = step.function, self.failed, self._count_of(chain, step)
        entered, left = _NONE, 0

        def computed(at: At, key: Any, message: Any) -> None:
            nonlocal entered, left
            entered += 1
            began = 0.0 if entered & _UNTIMED else perf_counter()
            try:
                result = function(message)
                # evaluated completely first: if it raises, the step emits nothing
                outputs = [] if result is None else [one for one in result if one is not None]
            except (Exception, SystemExit) as error:
                failed(chain, step, message, error, at)
                return
            if began:
                count.time(began)
            left += len(outputs)
            if stamped:
                assert isinstance(at, tuple)
                for number, output in enumerate(outputs):
                    then((*at, number), key, output)
            else:
                for output in outputs:
                    then(at, key, output)

        def add_counts() -> None:
            nonlocal entered, left
            count.add(entered - _NONE, left)
            entered, left = _NONE, 0

        self._counters.append(add_counts)
        return computed

    @knows_message("at", key="key", owner="chain", step="step")
    @runs_step("chain", "step")
    def _keyed(self, chain: OperatorChain, step: KeyBy, then: Path) -> Path:
        key_of, failed, bucket_of = step.key, self.failed, self._program.bucket_of
        metrics = self._results.metrics.step(chain.pipeline, step.name)

        def keyed(at: At, _key: Any, message: Any) -> None:
            metrics.entered += 1
            try:
                key = key_of(message)
                bucket_of(key)  # raises if it is not a valid key
            except (Exception, SystemExit) as error:
                failed(chain, NamedStep(step.name, step.place), message, error, at)
                return
            metrics.left += 1
            then(at, key, message)

        return keyed

    @knows_message("at", key="key", owner="stage")
    @runs_step("stage")
    def keyed_at(self, stage: StatefulStage, then: Path) -> Path:
        """Extract keys of messages at *stage*, and drop messages with keys that are not listed."""
        key_of, partition = stage.step.key, self._program.partitions[stage.partition]
        bucket_of, listed = self._program.bucket_of, partition.keys

        def keyed_at(at: At, key: Any, message: Any) -> None:
            try:
                if key_of is not None:
                    key = key_of(message)
                    bucket_of(key)  # raises if it is not a valid key
                if listed is not None and key not in listed:
                    origin = self.origin(at)
                    self._results.unroutable(stage, stage.step, partition, key, message, origin)
                    return
            except (Exception, SystemExit) as error:
                key_failed(stage, message, error, self._results, self.origin(at))
                return
            then(at, key, message)

        return keyed_at

    @knows_message("at", key="_key", owner="chain", step="step")
    @runs_step("chain", "step")
    def _encoded(self, chain: OperatorChain, index: int, sink: Sink, name: str) -> Path:
        encode: Callable[[Any], Any] = sink.encode
        if chain.keeps and sink.keeps:
            encode = self._current.encoding(sink.encode)
        failed, add = self.failed, self._results.adder(index)
        step = NamedStep(name, sink.place, chain.branch)
        count = self._count_of(chain, step)
        entered, dropped = _NONE, 0

        def encoded(at: At, _key: Any, message: Any) -> None:
            nonlocal entered, dropped
            entered += 1
            began = 0.0 if entered & _UNTIMED else perf_counter()
            try:
                output = encode(message)
                if began:
                    count.time(began)
                if type(output) is bytes:
                    add(output)
                elif output is None:
                    dropped += 1
                else:
                    add(as_bytes(output))
            except (Exception, SystemExit) as error:
                dropped += 1
                failed(chain, step, message, error, at)

        def add_counts() -> None:
            nonlocal entered, dropped
            count.add(entered - _NONE, entered - _NONE - dropped)
            entered, dropped = _NONE, 0

        self._counters.append(add_counts)
        return encoded

    def _count_of(self, chain: OperatorChain, step: Named) -> StepMetrics:
        return self._results.metrics.step(chain.pipeline, step.name)


def _each(paths: list[Path]) -> Path:
    """Return a path that passes each message through all *paths* in turn."""
    if len(paths) == 1:
        return paths[0]

    def each(at: At, key: Any, message: Any) -> None:
        for path in paths:
            path(at, key, message)

    return each


def as_bytes(encoded: Any) -> bytes:
    """Convert the result of an encoder to bytes.

    Raises:
        TypeError: It is neither bytes nor text.
        UnicodeEncodeError: It is text with an unpaired surrogate.
    """
    if isinstance(encoded, str):
        return encoded.encode()
    if isinstance(encoded, (bytes, bytearray, memoryview)):
        return bytes(encoded)
    kind = type(encoded).__name__
    msg = f"the encoder returned {short_repr(encoded)} ({kind}); expected bytes or a str"
    raise TypeError(msg)


def key_failed(
    stage: StatefulStage, message: Any, error: BaseException, results: TaskResults, origin: Origin
) -> None:
    """Dead-letter *message*, whose key at *stage* cannot be extracted or is invalid."""
    # finding the location is expensive, so it is done only for reports
    place = stage.step.place
    if stage.step.key is not None:
        place = place_of(stage.step.key, place)
    results.failed(stage, NamedStep(f"key of {stage.step.name}", place), message, error, origin)
