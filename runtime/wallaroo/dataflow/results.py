"""What a task has made: outputs by sink, and messages that it set aside."""

from __future__ import annotations

import traceback
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from wallaroo.api.places import RUNTIME, Place, place_of_error
from wallaroo.dataflow.records import FailedMessage, Outputs, Tally
from wallaroo.dataflow.task_metrics import TaskMetrics
from wallaroo.model.application import StatePartition
from wallaroo.model.callers import runs_step
from wallaroo.model.raised import describe_error, pass_interrupt, raised

_LETTER_BYTES = 500
"""What a letter takes besides its payload, about."""


class Named(Protocol):
    """A part of a pipeline that an error can name."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def place(self) -> Place: ...  # noqa: D102


class Owner(Protocol):
    """What belongs to a pipeline."""

    @property
    def pipeline(self) -> str: ...  # noqa: D102


class NamedStep(NamedTuple):
    """A part of a pipeline that is no step of the model: decoder, key function, encoder."""

    name: str
    place: Place


class Origin(NamedTuple):
    """Where a message comes from, as far as a task knows it."""

    key: str | None = None
    """Its key, printable."""
    arrival: int | None = None
    """Its arrival number; None behind a state."""


NOWHERE = Origin()
"""The origin of what has come through a state, or of no message."""


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
        self.figures = TaskMetrics()
        """What the whole task counts; delivered by `close`."""
        self._deliver = deliver
        self._held: dict[int, list[bytes]] = defaultdict(list)
        self._counted: dict[int, int] = defaultdict(int)
        """By sink: how many of the outputs held are in the sum of bytes."""
        self._held_bytes = 0
        self._delivered = False

    def adder(self, sink: int) -> Callable[[bytes], None]:
        """What takes outputs for *sink*, one by one, in order; `settle` has to follow."""
        return self._held[sink].append

    def settle(self) -> None:
        """Deliver the outputs that were taken, if enough have come together."""
        for sink, held in self._held.items():
            self._held_bytes += sum(map(len, held[self._counted[sink] :]))
            self._counted[sink] = len(held)
        if self._held_bytes >= self.FLUSH_BYTES:
            self._flush()

    def close(self, *, always: bool = False) -> bool:
        """Deliver what is held, if anything or *always*; tells whether anything ever was."""
        self.tally.figures, self.figures = self.figures, TaskMetrics()
        if any(self._held.values()) or self.tally or (always and not self._delivered):
            self._flush()
        return self._delivered

    @runs_step("owner", "step")
    def failed(
        self,
        owner: Owner,
        step: Named,
        message: Any,
        error: BaseException,
        origin: Origin = NOWHERE,
    ) -> None:
        """Set *message* aside: user code raised *error* on it in *step* of *owner*."""
        self.figures.step(owner.pipeline, step.name).set_aside += 1
        place = _place_of_error(raised(error), step)
        text, start = describe_error(error)[:500], shown(message)
        letter = FailedMessage(owner.pipeline, step.name, place, text, start, *origin)
        self.tally.add_set_aside(letter)
        self._note_letter()

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
        """Set *message* aside: its *key* is not among those that *partition* lists."""
        self.figures.step(owner.pipeline, step.name).unlisted += 1
        text = partition.explain_refusal(key)
        letter = FailedMessage(
            owner.pipeline, step.name, str(step.place), text, shown(message), *origin
        )
        self.tally.add_unknown_key(partition.name, letter._replace(key=shown(key, 100)))
        self._note_letter()

    def _note_letter(self) -> None:
        """Deliver before letters, too, take more memory than they may."""
        self._held_bytes += _LETTER_BYTES
        if self._held_bytes >= self.FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        outputs = [
            Outputs(sink, array("I", map(len, held)).tobytes(), b"".join(held))
            for sink, held in self._held.items()
            if held
        ]
        self._deliver(outputs, self.tally)
        self._delivered = True
        self.tally = Tally()
        for held in self._held.values():
            held.clear()  # and not another list: paths add to this one
        self._counted.clear()
        self._held_bytes = 0


def shown(value: Any, most: int = 200) -> str:
    """The start of *value*, printable."""
    start = bytes(value[:60]) if isinstance(value, (bytes, bytearray)) else value
    try:
        return repr(start)[:most]
    except BaseException as unprintable:
        pass_interrupt(unprintable)
        return f"<{type(value).__name__} whose repr raises {describe_error(unprintable)}>"[:most]


def _place_of_error(error: BaseException, step: Named) -> str:
    """The deepest line of the traceback, or where *step* is defined if no user code is in it."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or frames[-1].filename.startswith(RUNTIME):
        return str(place_of_error(error) or step.place)
    return str(Place(frames[-1].filename, frames[-1].lineno or 0))
