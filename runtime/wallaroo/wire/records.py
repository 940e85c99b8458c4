"""The input and the report of a task: chunks of messages, outputs and counts."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from wallaroo.wire.task_metrics import TaskMetrics

TICK_SOURCE = -1
"""Source of a block that is not a message but a reading of the clock."""
MILLISECOND_NS = 1_000_000
_LATEST_NS = (1 << 63) - 2
"""The latest time that a database holds, in nanoseconds since the Unix epoch: in the year 2262. The
journal takes the nanosecond after it for never."""


def bounded_ns(time_ns: int) -> int:
    """Return the time nearest to *time_ns* that a database holds: messages may tell of any time.

    Example:
        >>> bounded_ns(5), bounded_ns(10**30) == 2**63 - 2
        (5, True)
    """
    return max(-_LATEST_NS, min(time_ns, _LATEST_NS))


_LENGTH_BYTES = array("I").itemsize

Held = Sequence[tuple[int, int]]
"""Indices of sources, and for how many nanoseconds each was *held* since the journal was new: for
that long messages may have waited to be read, so that silence of a key does not count."""


class Block(NamedTuple):
    """Messages that one connection sent in a row, as stored in the journal."""

    first: int
    """Offset of the first message; offsets run over all sources without gaps."""
    messages: int
    """Number of messages."""
    source: int
    """Index of the source in `Application.sources`."""
    arrived_ns: int
    """Wall clock at arrival, in nanoseconds since the Unix epoch."""
    data: bytes
    """The messages, in the format of their source."""
    held: Held = ()
    """For how long sources were held until then: that of the messages, or all for a tick."""
    next_ms: int | None = None
    """Offset of the first message that arrived in the millisecond after that of `arrived_ns`, if
    any did: blocks that arrive within so long are joined."""

    @property
    def end(self) -> int:
        """Offset after the last message."""
        return self.first + self.messages

    def arrivals(self) -> Iterator[tuple[int, int]]:
        """Offsets from which on messages arrived in a millisecond since the epoch, and that.

        Example:
            >>> list(Block(7, 3, 0, 5_900_000, b"abc", next_ms=8).arrivals())
            [(7, 5), (8, 6)]
        """
        millisecond = self.arrived_ns // MILLISECOND_NS
        yield self.first, millisecond
        if self.next_ms is not None:
            yield self.next_ms, millisecond + 1


class Outputs(NamedTuple):
    """Encoded outputs for one sink, in order."""

    sink: int
    """Index of the sink in `Application.sinks`."""
    lengths: bytes
    """Length of each output, as unsigned 32-bit integers in native byte order."""
    data: bytes
    """The outputs, one after the other."""

    @classmethod
    def of(cls, sink: int, outputs: Collection[bytes]) -> Self:
        """The single *outputs* for *sink*.

        Example:
            >>> outputs = Outputs.of(0, [b"to", b"", b"be"])
            >>> outputs.amount, list(outputs.sizes), outputs.cut()
            (3, [2, 0, 2], [b'to', b'', b'be'])
        """
        return cls(sink, array("I", map(len, outputs)).tobytes(), b"".join(outputs))

    @property
    def amount(self) -> int:
        """How many there are."""
        return len(self.lengths) // _LENGTH_BYTES

    @property
    def sizes(self) -> array[int]:
        """The length of each."""
        return array("I", self.lengths)

    def cut(self) -> list[bytes]:
        """The single outputs, in order."""
        cut, start = [], 0
        for length in self.sizes:
            cut.append(self.data[start : start + length])
            start += length
        return cut


class Packed(NamedTuple):
    """Packed items for one bucket at one level."""

    level: int
    bucket: int
    blob: bytes


Kind = tuple[str, ...]
"""Kind of a failure: pipeline, step, place and class of the exception."""


class FailedMessage(NamedTuple):
    """A message removed from the stream: user code raised on it, or its key is not listed."""

    pipeline: str
    step: str
    place: str
    """File and line of the user code that raised."""
    error: str
    """Class and text of the exception."""
    message: str
    """Start of the message, printable."""
    key: str | None = None
    """Its key, printable, if known."""
    arrival: int | None = None
    """Offset of the message that it originates from; None after a state, which replaying that
    message would change twice."""
    traceback: str = ""
    """The traceback of the exception, without the runtime's lines; empty if nothing was raised."""

    @property
    def kind(self) -> Kind:
        """What failures that have the same cause agree in."""
        return self.pipeline, self.step, self.place, self.error.partition(":")[0]

    def storable(self) -> FailedMessage:
        r"""Return a copy with unpaired surrogates escaped, as databases and files reject them.

        Example:
            >>> FailedMessage("p", "s", "a.py:1", "ValueError: \ud800", "").storable().error
            'ValueError: \\ud800'
        """
        texts: dict[str, Any] = {
            name: value.encode("utf-8", "backslashreplace").decode()
            for name, value in self._asdict().items()
            if isinstance(value, str)
        }
        return self._replace(**texts)


@dataclass
class Tally:
    """The report of a task, except for outputs."""

    set_aside: int = 0
    """Number of messages on which user code raised."""
    examples: list[FailedMessage] = field(default_factory=list)
    """The first few of them, and the first one of each kind that `failures` counts."""
    letters: list[FailedMessage] = field(default_factory=list)
    """All failed messages and those with unlisted keys, until the gateway stores them."""
    unknown_keys: dict[tuple[str, str], int] = field(default_factory=dict)
    """Number of messages dropped because of an unlisted key, by (state, printable key)."""
    late: dict[tuple[str, str], int] = field(default_factory=dict)
    """Number of late messages, by (pipeline, windows)."""
    due: dict[tuple[int, int], int | None] = field(default_factory=dict)
    """When the clock closes the next window or calls the next timer, in nanoseconds since the Unix
    epoch, by (level, bucket); None for never."""
    expiries: dict[tuple[int, int], int | None] = field(default_factory=dict)
    """When it frees the next entity, which has no output, likewise."""
    metrics: TaskMetrics = field(default_factory=TaskMetrics)
    """Metrics of the task."""
    failures: dict[Kind, int] = field(default_factory=dict)
    """Number of messages on which user code raised."""

    MAX_EXAMPLES = 20
    """Maximum number of examples that a task keeps, besides the first one of each kind."""
    MAX_FAILURES = 100
    """Maximum number of kinds of failures to count; few lines raise exceptions of many classes."""
    MAX_UNKNOWN_KEYS = 1_000
    """Maximum number of keys to count individually; others are counted together as `…`."""

    def add_set_aside(self, example: FailedMessage) -> None:
        """Count a failed message, and keep it as an example if there are few."""
        self.set_aside += 1
        example = example.storable()
        self.letters.append(example)
        self._add_failures(example.kind, 1, [example])

    def add_unknown_key(self, partition: str, letter: FailedMessage) -> None:
        """Count a message whose key is not listed for the state *partition*, and keep it."""
        letter = letter.storable()
        self.letters.append(letter)
        self._count_unknown_key((partition, letter.key or ""), 1)

    def add_late(self, pipeline: str, step: str) -> None:
        """Count a message that was too late for its windows."""
        self.late[pipeline, step] = self.late.get((pipeline, step), 0) + 1

    def merge(self, other: Tally) -> None:
        """Add the contents of *other*."""
        self.metrics.merge(other.metrics)
        if not other.has_others:
            return
        self.set_aside += other.set_aside
        examples = defaultdict(list)
        for example in other.examples:
            examples[example.kind].append(example)
        for kind, count in other.failures.items():
            self._add_failures(kind, count, examples[kind])
        self.letters += other.letters
        for entry, count in other.unknown_keys.items():
            self._count_unknown_key(entry, count)
        for step, count in other.late.items():
            self.late[step] = self.late.get(step, 0) + count
        self.due |= other.due
        self.expiries |= other.expiries

    def __bool__(self) -> bool:
        return bool(self.metrics or self.has_others)

    @property
    def has_others(self) -> bool:
        """Whether it has anything but metrics of steps and arrivals."""
        return bool(
            self.set_aside
            or self.failures
            or self.letters
            or self.unknown_keys
            or self.late
            or self.due
            or self.expiries
            or self.metrics.has_others
        )

    def _add_failures(self, kind: Kind, count: int, examples: Sequence[FailedMessage]) -> None:
        """Count failures of one *kind*, of which *examples* are the first few."""
        if kind not in self.failures and len(self.failures) >= self.MAX_FAILURES:
            return
        room = max(self.MAX_EXAMPLES - len(self.examples), kind not in self.failures)
        self.failures[kind] = self.failures.get(kind, 0) + count
        self.examples += examples[:room]

    def _count_unknown_key(self, entry: tuple[str, str], count: int) -> None:
        if entry not in self.unknown_keys and len(self.unknown_keys) >= self.MAX_UNKNOWN_KEYS:
            entry = (entry[0], "…")
        self.unknown_keys[entry] = self.unknown_keys.get(entry, 0) + count

    def to_json(self) -> dict[str, Any]:
        """Convert to plain JSON values; what is empty is left out."""
        values: dict[str, Any] = {
            "set_aside": self.set_aside,
            "examples": [list(example) for example in self.examples],
            "letters": [list(letter) for letter in self.letters],
            "unknown_keys": [[*entry, count] for entry, count in self.unknown_keys.items()],
            "late": [[*step, count] for step, count in self.late.items()],
            "due": [[*bucket, due] for bucket, due in self.due.items()],
            "expiries": [[*bucket, due] for bucket, due in self.expiries.items()],
            "figures": self.metrics.to_json(),
            "failures": [[*kind, count] for kind, count in self.failures.items()],
        }
        return {name: value for name, value in values.items() if value}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Tally:
        """Convert the result of `to_json` back."""
        get = value.get
        return cls(
            get("set_aside", 0),
            [FailedMessage(*example) for example in get("examples", ())],
            [FailedMessage(*letter) for letter in get("letters", ())],
            {(partition, key): count for partition, key, count in get("unknown_keys", ())},
            {(pipeline, step): count for pipeline, step, count in get("late", ())},
            {(level, bucket): due for level, bucket, due in get("due", ())},
            {(level, bucket): due for level, bucket, due in get("expiries", ())},
            TaskMetrics.from_json(get("figures", {})),
            {tuple(kind): count for *kind, count in get("failures", ())},
        )


class Schedule:
    """When the clock has an effect next on what several tasks have reported.

    Example:
        >>> schedule, tally = Schedule(), Tally()
        >>> tally.expiries[1, 0] = 10
        >>> schedule.note(tally)
        >>> schedule.next_ns, schedule.has_outputs
        (10, False)
        >>> tally.due[1, 0] = 20
        >>> schedule.note(tally)
        >>> schedule.next_ns, schedule.has_outputs
        (10, True)
    """

    def __init__(self) -> None:
        self._due: dict[tuple[int, int], int | None] = {}
        self._expiries: dict[tuple[int, int], int | None] = {}

    def note(self, tally: Tally) -> None:
        """Note what a task has reported last of its buckets."""
        self._due |= tally.due
        self._expiries |= tally.expiries

    @property
    def next_ns(self) -> int | None:
        """When it has the next effect, in nanoseconds since the Unix epoch; None for never."""
        times = (*self._due.values(), *self._expiries.values())
        return min((at for at in times if at is not None), default=None)

    @property
    def has_outputs(self) -> bool:
        """Whether one of its effects may have outputs."""
        return any(at is not None for at in self._due.values())
