"""What a task has made: outputs by sink, and messages that it set aside."""

from __future__ import annotations

import traceback
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from wallaroo.api.place import Place
from wallaroo.engine.figures import Figures
from wallaroo.engine.ports import Outputs, SetAside, Tally

_RUNTIME = str(Path(__file__).parent)


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
        self.figures = Figures()
        """What the whole task counts; delivered by `close`."""
        self._deliver = deliver
        self._held: dict[int, list[bytes]] = defaultdict(list)
        self._held_bytes = 0
        self._delivered = False

    def add(self, sink: int, outputs: list[bytes]) -> None:
        """Take *outputs* for *sink*, in order."""
        size = sum(map(len, outputs))
        step = max(1, len(outputs) * self.FLUSH_BYTES // (size + 1))
        for start in range(0, len(outputs), step):
            some = outputs[start : start + step]
            self._held[sink] += some
            self._held_bytes += sum(map(len, some))
            if self._held_bytes >= self.FLUSH_BYTES:
                self._flush()

    def close(self, *, always: bool = False) -> bool:
        """Deliver what is held, if anything or *always*; tells whether anything ever was."""
        self.tally.figures, self.figures = self.figures, Figures()
        if self._held or self.tally or (always and not self._delivered):
            self._flush()
        return self._delivered

    def failed(self, owner: Owner, step: Named, message: Any, error: BaseException) -> None:
        """Set *message* aside: user code raised *error* on it in *step* of *owner*."""
        self.figures.step(owner.pipeline, step.name).set_aside += 1
        text = f"{type(error).__name__}: {error}"[:500]
        shown = bytes(message[:60]) if isinstance(message, (bytes, bytearray)) else message
        try:
            printable = repr(shown)[:200]
        except Exception as unprintable:
            printable = f"<{type(message).__name__} whose repr raises {unprintable!r}>"[:200]
        self.tally.add_set_aside(
            SetAside(owner.pipeline, step.name, _place_of_error(error, step), text, printable)
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


def _place_of_error(error: BaseException, step: Named) -> str:
    """The deepest line of the traceback, or where *step* is defined if no user code is in it."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or frames[-1].filename.startswith(_RUNTIME):
        return str(step.place)
    return str(Place(frames[-1].filename, frames[-1].lineno or 0))
