"""What a task has made: outputs by sink, and messages that it set aside."""

from __future__ import annotations

import traceback
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from wallaroo.api.place import Place, place_of_error
from wallaroo.engine.figures import Figures
from wallaroo.engine.ports import Outputs, SetAside, Tally

_RUNTIME = str(Path(__file__).parent)
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
    payload: bytes | None = None
    """Its payload, where the arrival number is not at hand."""


NOWHERE = Origin()
"""The origin of what has come through a state, or of no message."""


class Bearer(Protocol):
    """A leg, to which payloads or messages go."""

    @property
    def ships_payloads(self) -> bool: ...  # noqa: D102


def origins(
    leg: Bearer, key: Any, items: Sequence[Any], arrivals: Sequence[int | None]
) -> Iterator[tuple[Any, Origin]]:
    """*items* that go to *key* of *leg*, each with where it comes from."""
    for place, item in enumerate(items):
        yield item, origin_at(place, leg, key, items, arrivals)


def origin_at(
    place: int, leg: Bearer, key: Any, items: Sequence[Any], arrivals: Sequence[int | None]
) -> Origin:
    """Where the one at *place* of such *items* comes from."""
    printable = shown(key, 100)
    if leg.ships_payloads:
        return Origin(printable, None, items[place])
    return Origin(printable, arrivals[place] if arrivals else None)


def message_of(item: Any, decode: Callable[[Any], Any]) -> Any:
    """The message of *item*, to tell it; the item itself, where it cannot be decoded."""
    try:
        return decode(item)
    except (Exception, SystemExit):
        return item


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
            self._held_bytes += size if len(some) == len(outputs) else sum(map(len, some))
            if self._held_bytes >= self.FLUSH_BYTES:
                self._flush()

    def close(self, *, always: bool = False) -> bool:
        """Deliver what is held, if anything or *always*; tells whether anything ever was."""
        self.tally.figures, self.figures = self.figures, Figures()
        if self._held or self.tally or (always and not self._delivered):
            self._flush()
        return self._delivered

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
        text = f"{type(error).__name__}: {error}"[:500]
        letter = SetAside(
            owner.pipeline, step.name, _place_of_error(error, step), text, shown(message), *origin
        )
        self.tally.add_set_aside(letter)
        self._note_letter(letter)

    def unroutable(
        self, owner: Owner, step: Named, partition: str, key: Any, message: Any, origin: Origin
    ) -> None:
        """Set *message* aside: its *key* is not among those that *partition* lists."""
        printable = shown(key, 100)
        text = f"its key {printable} is not among those of state {partition!r}"
        letter = SetAside(owner.pipeline, step.name, str(step.place), text, shown(message), *origin)
        self.tally.add_unknown_key(partition, letter._replace(key=printable))
        self._note_letter(letter)

    def _note_letter(self, letter: SetAside) -> None:
        """Deliver before letters, too, take more memory than they may."""
        self._held_bytes += _LETTER_BYTES + len(letter.payload or b"")
        if self._held_bytes >= self.FLUSH_BYTES:
            self._flush()

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


def shown(value: Any, most: int = 200) -> str:
    """The start of *value*, printable."""
    start = bytes(value[:60]) if isinstance(value, (bytes, bytearray)) else value
    try:
        return repr(start)[:most]
    except Exception as unprintable:
        return f"<{type(value).__name__} whose repr raises {unprintable!r}>"[:most]


def _place_of_error(error: BaseException, step: Named) -> str:
    """The deepest line of the traceback, or where *step* is defined if no user code is in it."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or frames[-1].filename.startswith(_RUNTIME):
        return str(place_of_error(error) or step.place)
    return str(Place(frames[-1].filename, frames[-1].lineno or 0))
