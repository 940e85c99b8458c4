"""The results of a task: outputs by sink, and failed messages."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from wallaroo.api.places import Place
from wallaroo.dataflow.tracebacks import place_of_failure, traceback_of
from wallaroo.model.application import StatePartition
from wallaroo.user_code.callers import runs_step
from wallaroo.user_code.exceptions import describe_error, raised, short_repr
from wallaroo.wire.records import FailedMessage, Outputs, Tally
from wallaroo.wire.refusals import Refused
from wallaroo.wire.task_metrics import TaskMetrics

if TYPE_CHECKING:
    from wallaroo.dataflow.packing import Stamp
    from wallaroo.dataflow.program import StatefulStage

_exit, _getpid = os._exit, os.getpid  # user code may replace them
KEY_LENGTH = 100
"""Characters of a key in a dead letter at most."""


class Named(Protocol):
    """A part of a pipeline that an error can refer to."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def place(self) -> Place: ...  # noqa: D102


class Owner(Protocol):
    """An object that belongs to a pipeline."""

    @property
    def pipeline(self) -> str: ...  # noqa: D102


class NamedStep(NamedTuple):
    """A part of a pipeline that is not a step of the model: decoder, key function, encoder."""

    name: str
    place: Place
    number: int = 0
    """Number of the branch that it belongs to."""


class Origin(NamedTuple):
    """The origin of a message, as far as the task knows it."""

    key: str | None = None
    """Its key, printable."""
    arrival: int | None = None
    """Its offset; None after a state."""

    @classmethod
    def of(cls, key: Any, arrival: int | None) -> Origin:
        """The origin of a message of *key* that came to a state; see `arrival`."""
        return cls(preview(key, KEY_LENGTH), arrival)

    @classmethod
    def at(cls, stage: StatefulStage, stamp: Stamp, key: Any) -> Origin:
        """The origin of the message of *key* with *stamp* at *stage*."""
        return cls.of(key, stamp[0] if stage.fresh else None)


NOWHERE = Origin()
"""The origin of messages that have passed through a state, or of no message."""


class TaskResults:
    """Collects the outputs of a chunk by sink, and its report, and gives them away before the next.

    Routers and workers keep the metrics of steps that they count in: so these are emptied in place.
    """

    JOINED_BYTES = 1024 * 1024
    """Bytes of outputs to collect before they are joined, which limits memory."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self.tally = Tally()
        self.metrics = TaskMetrics()
        """Metrics of the whole chunk, which `take` adds to the report."""
        self._outputs: dict[int, list[bytes]] = defaultdict(list)
        self._counted: dict[int, int] = defaultdict(int)
        """Number of collected outputs that are included in `_bytes`, by sink."""
        self._bytes = 0
        self._joined: list[Outputs] = []

    def adder(self, sink: int) -> Callable[[bytes], None]:
        """Return a function that adds an output for *sink*; call `settle` after adding outputs."""
        return self._outputs[sink].append

    def settle(self) -> None:
        """Join the collected outputs if enough have accumulated.

        It also ends a process that user code has forked and in which it has returned as well. Such
        a process must reach nothing of the engine, which would be there twice.
        """
        self._end_other_process()
        for sink, outputs in self._outputs.items():
            self._bytes += sum(map(len, outputs[self._counted[sink] :]))
            self._counted[sink] = len(outputs)
        if self._bytes >= self.JOINED_BYTES:
            self._join()

    def take(self) -> tuple[list[Outputs], Tally]:
        """Outputs and report since the last call."""
        self._end_other_process()
        self._join()
        outputs, tally = self._joined, self.tally
        tally.metrics = self.metrics.taken()
        self._joined, self.tally = [], Tally()
        return outputs, tally

    @runs_step("owner", "step")
    def failed(
        self,
        owner: Owner,
        step: Named,
        message: Any,
        error: BaseException,
        origin: Origin = NOWHERE,
    ) -> None:
        """Dead-letter *message*, on which *step* of *owner* raised *error*."""
        self.metrics.step(owner.pipeline, step.name).set_aside += 1
        cause = raised(error)
        place = str(place_of_failure(cause) or step.place)
        text = describe_error(error)[:500]
        start = "" if isinstance(cause, Refused) else preview(message)
        failed = FailedMessage(owner.pipeline, step.name, place, text, start, *origin)
        self.tally.add_set_aside(failed._replace(traceback=traceback_of(cause)))

    @runs_step("owner", "step")
    def unroutable(
        self,
        owner: Owner,
        step: Named,
        partition: StatePartition,
        key: Any,
        message: Any,
        origin: Origin,
    ) -> None:
        """Dead-letter *message*, whose *key* is not listed for *partition*."""
        self.metrics.step(owner.pipeline, step.name).unlisted += 1
        text = partition.explain_refusal(key)
        failed = FailedMessage(
            owner.pipeline, step.name, str(step.place), text, preview(message), *origin
        )
        self.tally.add_unknown_key(partition.name, failed._replace(key=preview(key, KEY_LENGTH)))

    def _end_other_process(self) -> None:
        if _getpid() != self._process:
            _exit(1)

    def _join(self) -> None:
        self._joined += [
            Outputs.of(sink, outputs) for sink, outputs in self._outputs.items() if outputs
        ]
        for outputs in self._outputs.values():
            outputs.clear()  # keep the list: paths append to it
        self._counted.clear()
        self._bytes = 0


def preview(value: Any, limit: int = 200) -> str:
    """Return at most *limit* characters of the repr of *value*, of bytes only the first 60."""
    start = bytes(value[:60]) if isinstance(value, (bytes, bytearray)) else value
    return short_repr(start, limit)
