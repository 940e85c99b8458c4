"""What the engine needs of the edge: a replayable journal and an outbox that commits by batch.

The edge implements `Edge`; the engine reaches it through a `Connect` function, which must be
picklable because workers in other processes, and on other machines, call it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from wallaroo.engine.figures import Figures
from wallaroo.errors import RuntimeFailure

TICK_SOURCE = -1
"""Source of a chunk that is no message but tells what the clock shows."""


class Stopped(RuntimeFailure):
    """The application is to stop because of a message; its batch can never be published."""


class Chunk(NamedTuple):
    """Messages that one connection sent in a row, as the journal keeps them."""

    first: int
    """Arrival number of the first message; numbers run over all sources without gaps."""
    messages: int
    """Messages in it."""
    source: int
    """Index of the source in `Application.sources`."""
    arrived_ns: int
    """Wall clock at arrival, in nanoseconds since the epoch."""
    data: bytes
    """The frames, headers included."""


class Outputs(NamedTuple):
    """Encoded outputs for one sink, in order."""

    sink: int
    """Index of the sink in `Application.sinks`."""
    lengths: bytes
    """Length of each output as unsigned 32-bit integers of this machine."""
    data: bytes
    """The outputs, one after the other."""


class SetAside(NamedTuple):
    """A message that was taken out of the stream: user code raised on it, or its key is unknown."""

    pipeline: str
    step: str
    place: str
    """File and line of the user code that raised."""
    error: str
    """Class and text of the exception."""
    message: str
    """Start of the message, printable."""
    key: str | None = None
    """Its key, printable, where that was known."""
    arrival: int | None = None
    """Arrival number of what it was made of; None behind a state, which a second arrival would
    change twice."""


@dataclass
class Tally:
    """What a task has to report besides outputs."""

    set_aside: int = 0
    """Messages set aside."""
    examples: list[SetAside] = field(default_factory=list)
    """The first few of them."""
    letters: list[SetAside] = field(default_factory=list)
    """All that was set aside or has an unknown key, until the edge keeps it."""
    unknown_keys: dict[tuple[str, str], int] = field(default_factory=dict)
    """Messages dropped by (state partition, printable key), because the key is not listed."""
    late: dict[tuple[str, str], int] = field(default_factory=dict)
    """Late messages dropped by (pipeline, windows)."""
    due: dict[tuple[int, int], int | None] = field(default_factory=dict)
    """When the clock has to close windows, in nanoseconds since the epoch, by (level, bucket);
    None for never."""
    figures: Figures = field(default_factory=Figures)
    """What it counted and timed."""

    MAX_EXAMPLES = 20
    """Examples that a task keeps: enough to see what is wrong, whatever the flood."""
    MAX_UNKNOWN_KEYS = 1_000
    """Keys counted one by one; the others are counted together under `…`."""

    def add_set_aside(self, example: SetAside) -> None:
        """Count a message set aside, and keep it as an example while there are few."""
        self.set_aside += 1
        self.letters.append(example)
        if len(self.examples) < self.MAX_EXAMPLES:
            self.examples.append(example)

    def add_unknown_key(self, partition: str, letter: SetAside) -> None:
        """Count a message whose key is not listed in the state *partition*, and keep it."""
        self.letters.append(letter)
        self._count_unknown_key((partition, letter.key or ""), 1)

    def add_late(self, pipeline: str, step: str) -> None:
        """Count a message that came too late for its windows."""
        self.late[pipeline, step] = self.late.get((pipeline, step), 0) + 1

    def merge(self, other: Tally) -> None:
        """Add what *other* has."""
        self.set_aside += other.set_aside
        self.examples = (self.examples + other.examples)[: self.MAX_EXAMPLES]
        self.letters += other.letters
        for entry, count in other.unknown_keys.items():
            self._count_unknown_key(entry, count)
        for step, count in other.late.items():
            self.late[step] = self.late.get(step, 0) + count
        self.due |= other.due
        self.figures.merge(other.figures)

    def __bool__(self) -> bool:
        return bool(self.set_aside or self.unknown_keys or self.late or self.due or self.figures)

    def _count_unknown_key(self, entry: tuple[str, str], count: int) -> None:
        if entry not in self.unknown_keys and len(self.unknown_keys) >= self.MAX_UNKNOWN_KEYS:
            entry = (entry[0], "…")
        self.unknown_keys[entry] = self.unknown_keys.get(entry, 0) + count

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "set_aside": self.set_aside,
            "examples": [list(example) for example in self.examples],
            "letters": [list(letter) for letter in self.letters],
            "unknown_keys": [[*entry, count] for entry, count in self.unknown_keys.items()],
            "late": [[*step, count] for step, count in self.late.items()],
            "due": [[*bucket, due] for bucket, due in self.due.items()],
            "figures": self.figures.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Tally:
        """The tally that `to_json` wrote."""
        return cls(
            value["set_aside"],
            [SetAside(*example) for example in value["examples"]],
            [SetAside(*letter) for letter in value["letters"]],
            {(partition, key): count for partition, key, count in value["unknown_keys"]},
            {(pipeline, step): count for pipeline, step, count in value["late"]},
            {(level, bucket): due for level, bucket, due in value["due"]},
            Figures.from_json(value["figures"]),
        )


class Latest(NamedTuple):
    """Where the next batch ends."""

    end: int
    """Offset behind its last message."""
    opening: str
    """Name of the journal's opening at that time: an offset belongs to one journal."""


class Position(NamedTuple):
    """How far the query of a checkpoint is; by default, one that has planned no batch."""

    run: str | None = None
    """Name under which the query publishes its batches."""
    batch: int = -1
    """Number of the last batch that was planned."""
    planned: int = 0
    """Offset behind that batch."""
    opening: str | None = None
    """Opening of the journal under which it was planned; None where that was not noted."""
    committed: int = 0
    """Offset behind the last batch that is committed."""
    published: int = -1
    """Number of the last batch that must have been published."""


class Edge(Protocol):
    """The journal and the outbox, from wherever the engine runs."""

    def latest(
        self,
        after: int,
        max_bytes: int,
        max_messages: int,
        wait_s: float,
        opening: str | None = None,
    ) -> Latest:
        """The end of the next batch: the largest offset within its bounds.

        Args:
            after: Offset up to which messages are taken already.
            max_bytes: Bytes of messages at most, one chunk at least.
            max_messages: Number of messages at most, one chunk at least.
            wait_s: Seconds to wait where there is nothing after *after*, or where the outbox is
                too full to take more.
            opening: The opening that *after* came with; None where that was not noted.

        Returns:
            An offset (the arrival number of the first message that is not in the batch), *after*
            itself if there is nothing to do.

        Raises:
            WallarooError: *after* belongs to another journal.
        """

    def plan(self, start: int, end: int, parts: int) -> Sequence[tuple[int, int]]:
        """Begin a batch of the offsets [*start*, *end*); one batch is under way at a time.

        Returns:
            The offsets in at most *parts* ranges of about equal bytes.
        """

    def read(self, start: int, end: int) -> Iterator[Sequence[Chunk]]:
        """The chunks of [*start*, *end*) in order of arrival, in blocks of a few MiB."""

    def stage(self, token: str, outputs: Sequence[Outputs], tally: Tally) -> None:
        """Leave *outputs* of a task under *token*; they count once a batch publishes the token.

        May be called several times with one token; a token that no batch publishes is forgotten.
        """

    def publish(self, run: str, batch: int, tokens: Sequence[str]) -> Tally | None:
        """Commit the outputs left under *tokens*, in that order, as those of *batch*.

        Does nothing where *batch* of *run* has been published before, however often it is asked.

        Returns:
            What the tasks reported, all together; None where the batch was published before, be it
            by a call whose answer was lost.

        Raises:
            Stopped: A message of the batch was set aside whose source is to stop then.
        """

    def wake(self, at_ns: int | None) -> None:
        """Put a tick into the journal when the wall clock shows *at_ns*; None for never.

        Takes the place of what was asked before.
        """

    def consume(self, end: int) -> None:
        """Forget the messages before offset *end*: no batch will ask for them again."""


Connect = Callable[[], Edge]
"""Makes a connection to the edge; picklable."""
