"""The path of messages through stateless steps, forks and sinks: one message at a time.

A message goes through all that it leads to before the next one moves, as in one loop of plain
Python: whatever steps share with each other or with state, an output is encoded as it was when it
was yielded. A path is a chain of closures, each of which calls the next: for a message that costs
little more than a loop over lists of messages for each step.

An exception sets aside the one message on which it was raised, and that step gives nothing for it;
None is no output.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from wallaroo.api.places import place_of
from wallaroo.dataflow.packing import Stamp
from wallaroo.dataflow.program import OperatorChain, Program, StatefulStage
from wallaroo.dataflow.results import NOWHERE, Named, NamedStep, Origin, Owner, TaskResults
from wallaroo.dataflow.task_metrics import StepMetrics
from wallaroo.model.application import Compute, KeyBy, Sink
from wallaroo.model.callers import runs_step, time_limited

At = int | Stamp | None
"""What a message was made of: its arrival number, or its stamp; None if neither is known."""
Path = Callable[[At, Any, Any], None]
"""Takes a message on: (what it was made of, key in force, message)."""

SAMPLE = 16
"""Of so many messages that go through a step one by one, the first is timed."""
_UNTIMED = SAMPLE - 1
"""Bits of a message's number that are not all zero where it is not timed."""
_NONE = -1
"""Number of the last message, before the first one."""


@time_limited
class Paths:
    """Makes the paths of a program's stretches.

    Args:
        program: What to run.
        results: Takes outputs and what is set aside.
        arrival: Makes what takes messages that have come to a leg.
        fresh: Whether no state has seen the messages before.
    """

    def __init__(
        self,
        program: Program,
        results: TaskResults,
        arrival: Callable[[StatefulStage], Path],
        *,
        fresh: bool,
    ) -> None:
        self._program = program
        self._results = results
        self._arrival = arrival
        self._fresh = fresh
        self._counted: list[Callable[[], None]] = []

    def of(self, stretch: OperatorChain, *, stamped: bool) -> Path:
        """The path through *stretch* and all that it leads to.

        Args:
            stretch: The stretch.
            stamped: Whether messages bear stamps, which have to tell apart what is made of one.
        """
        path = self._end(stretch, stamped=stamped)
        for step in reversed(stretch.steps):
            if isinstance(step, KeyBy):
                path = self._keyed(stretch, step, path)
            elif step.multi:
                path = self._computed_multi(stretch, step, path, stamped=stamped)
            else:
                path = self._computed(stretch, step, path)
        return path

    def count(self) -> None:
        """Add what paths have counted to the figures."""
        for counted in self._counted:
            counted()

    def failed(self, owner: Owner, step: Named, message: Any, error: BaseException, at: At) -> None:
        """Set *message* aside: *step* of *owner* raised *error* on it."""
        self._results.failed(owner, step, message, error, self.origin(at))

    def origin(self, at: At) -> Origin:
        """Where a message comes from."""
        if not self._fresh or at is None:
            return NOWHERE
        return Origin(None, at if isinstance(at, int) else at[0])

    def _end(self, stretch: OperatorChain, *, stamped: bool) -> Path:
        """What comes behind the steps of *stretch*."""
        if stretch.leg is not None:
            return self._arrival(self._program.legs[stretch.leg])
        if not stretch.forks:
            return _each([self._encoded(stretch, index, sink) for index, sink in stretch.sinks])
        forks = list(enumerate(self.of(fork, stamped=stamped) for fork in stretch.forks))
        if not stamped:
            return _each([fork for _, fork in forks])

        def forked(at: At, key: Any, message: Any) -> None:
            assert isinstance(at, tuple)
            for number, fork in forks:
                fork((*at, number), key, message)

        return forked

    @runs_step("stretch", "step")
    def _computed(self, stretch: OperatorChain, step: Compute, then: Path) -> Path:
        function, failed, count = step.function, self.failed, self._count_of(stretch, step)
        entered, dropped = _NONE, 0

        def computed(at: At, key: Any, message: Any) -> None:
            nonlocal entered, dropped
            entered += 1
            began = 0.0 if entered & _UNTIMED else perf_counter()
            try:
                result = function(message)
            except (Exception, SystemExit) as error:
                dropped += 1
                failed(stretch, step, message, error, at)
                return
            if began:
                count.time(began)
            if result is None:
                dropped += 1
            else:
                then(at, key, result)

        def counted() -> None:
            nonlocal entered, dropped
            count.add(entered - _NONE, entered - _NONE - dropped)
            entered, dropped = _NONE, 0

        self._counted.append(counted)
        return computed

    @runs_step("stretch", "step")
    def _computed_multi(
        self, stretch: OperatorChain, step: Compute, then: Path, *, stamped: bool
    ) -> Path:
        function, failed, count = step.function, self.failed, self._count_of(stretch, step)
        entered, left = _NONE, 0

        def computed(at: At, key: Any, message: Any) -> None:
            nonlocal entered, left
            entered += 1
            began = 0.0 if entered & _UNTIMED else perf_counter()
            try:
                several = function(message)
                # all of them first: of a message on which it raises, nothing comes
                made = [] if several is None else [one for one in several if one is not None]
            except (Exception, SystemExit) as error:
                failed(stretch, step, message, error, at)
                return
            if began:
                count.time(began)
            left += len(made)
            if stamped:
                assert isinstance(at, tuple)
                for number, one in enumerate(made):
                    then((*at, number), key, one)
            else:
                for one in made:
                    then(at, key, one)

        def counted() -> None:
            nonlocal entered, left
            count.add(entered - _NONE, left)
            entered, left = _NONE, 0

        self._counted.append(counted)
        return computed

    @runs_step("stretch", "step")
    def _keyed(self, stretch: OperatorChain, step: KeyBy, then: Path) -> Path:
        key_of, failed, bucket_of = step.key, self.failed, self._program.bucket_of
        figures = self._results.figures.step(stretch.pipeline, step.name)

        def keyed(at: At, _key: Any, message: Any) -> None:
            figures.entered += 1
            try:
                key = key_of(message)
                bucket_of(key)  # raises where it is not a valid key
            except (Exception, SystemExit) as error:
                failed(stretch, NamedStep(step.name, step.place), message, error, at)
                return
            figures.left += 1
            then(at, key, message)

        return keyed

    @runs_step("leg")
    def keyed_at(self, leg: StatefulStage, then: Path) -> Path:
        """Finds the keys of messages at *leg*, and leaves out those whose keys it does not hold."""
        key_of, partition = leg.step.key, self._program.partitions[leg.partition]
        bucket_of = self._program.bucket_of

        def keyed_at(at: At, key: Any, message: Any) -> None:
            try:
                if key_of is not None:
                    key = key_of(message)
                    bucket_of(key)  # raises where it is not a valid key
                if not partition.accepts(key):
                    origin = self.origin(at)
                    self._results.unroutable(leg, leg.step, partition, key, message, origin)
                    return
            except (Exception, SystemExit) as error:
                key_failed(leg, message, error, self._results, self.origin(at))
                return
            then(at, key, message)

        return keyed_at

    @runs_step("stretch", "step")
    def _encoded(self, stretch: OperatorChain, index: int, sink: Sink) -> Path:
        encode, failed, add = sink.encode, self.failed, self._results.adder(index)
        step = NamedStep("encoder", sink.place)
        count = self._count_of(stretch, step)
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
                    message = output
                    add(as_bytes(output))
            except (Exception, SystemExit) as error:
                dropped += 1
                failed(stretch, step, message, error, at)

        def counted() -> None:
            nonlocal entered, dropped
            count.add(entered - _NONE, entered - _NONE - dropped)
            entered, dropped = _NONE, 0

        self._counted.append(counted)
        return encoded

    def _count_of(self, stretch: OperatorChain, step: Named) -> StepMetrics:
        return self._results.figures.step(stretch.pipeline, step.name)


def _each(paths: list[Path]) -> Path:
    """Takes each message through all of *paths*, one after the other."""
    if len(paths) == 1:
        return paths[0]

    def each(at: At, key: Any, message: Any) -> None:
        for path in paths:
            path(at, key, message)

    return each


def as_bytes(encoded: Any) -> bytes:
    """What an encoder returned, as bytes.

    Raises:
        TypeError: It is neither bytes nor text.
        UnicodeEncodeError: It is text with half of a surrogate pair.
    """
    if isinstance(encoded, str):
        return encoded.encode()
    if isinstance(encoded, (bytes, bytearray, memoryview)):
        return bytes(encoded)
    msg = f"the encoder returned {type(encoded).__name__}; expected bytes"
    raise TypeError(msg)


def key_failed(
    leg: StatefulStage, message: Any, error: BaseException, results: TaskResults, origin: Origin
) -> None:
    """Set *message* aside, because its key at *leg* cannot be found or used."""
    # finding the place costs more than all the rest of a small chunk: only where it is reported
    place = leg.step.place if leg.step.key is None else place_of(leg.step.key)
    results.failed(leg, NamedStep(f"key of {leg.step.name}", place), message, error, origin)
