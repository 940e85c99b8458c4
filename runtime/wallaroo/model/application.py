"""The normal form of an application, which all engines read."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wallaroo import __version__
from wallaroo.api.durations import EventTime
from wallaroo.api.places import Place
from wallaroo.model.endpoints import Sink, Source
from wallaroo.model.migrations import FIRST, Versions
from wallaroo.model.timing import Timing
from wallaroo.model.windows import Windows
from wallaroo.user_code.exceptions import short_repr

MIXED = -1
"""In the place of the number of steps and branches behind a state, a `KeyBy` and a step that
gathers: what comes of one message there is mixed by what else is in a process."""
_ALL = 3
_BRANCHES = None
"""In the place of the name of steps: branches."""
_SAMPLE_KEYS = 5
"""Listed keys that messages show."""


def _in_other_type(key: Any) -> Any:
    """Convert *key* as Wallaroo (from code to character) or Python 2 did, if possible."""
    try:
        if isinstance(key, int):
            return chr(key)
        if isinstance(key, bytes):
            return key.decode()
        return key.encode() if isinstance(key, str) else key
    except (ValueError, OverflowError):
        return key


@dataclass(frozen=True)
class StatePartition:
    """A named set of state entities, one for each key."""

    name: str
    new_entity: Callable[[], Any]
    keys: frozenset[Any] | None
    """Listed keys; None if every key gets an entity with its first message."""
    place: Place
    windows: Windows | None = None
    """The windows that its entities hold; None for entities of a class of the application."""
    timing: Timing | None = None
    """Timers and expiry of its entities; None if they have neither."""
    versions: Versions | None = None
    """Versions of the class of its entities; None if it has only one."""

    @property
    def version(self) -> int:
        """The version of the class of its entities in the code."""
        return FIRST if self.versions is None else self.versions.current

    def accepts(self, key: Any) -> bool:
        """Whether *key* has, or may get, an entity."""
        return self.keys is None or key in self.keys

    def describe_keys(self) -> str:
        """Return a sample of the listed keys and their number, for messages."""
        keys = self.keys or ()
        sample = sorted(map(repr, keys))[:_SAMPLE_KEYS]
        return f"{', '.join(sample)}{', …' if len(keys) > len(sample) else ''} ({len(keys):,} keys)"

    def explain_refusal(self, key: Any) -> str:
        """Explain why *key*, which is not listed, has no entity.

        Example:
            >>> totals = StatePartition("totals", dict, frozenset("ab"), Place("app.py", 1))
            >>> print(totals.explain_refusal(97).partition(": ")[2])
            it is of type int, but the listed keys are of type str; return 'a' instead
        """
        text = f"its key {short_repr(key)} is not listed for state {self.name!r}"
        example = next(iter(self.keys or ()), key)
        if type(key) is type(example):
            return text
        types = type(key).__name__, type(example).__name__
        text += ": it is of type {}, but the listed keys are of type {}".format(*types)
        other = _in_other_type(key)
        return f"{text}; return {other!r} instead" if self.accepts(other) else text


@dataclass(frozen=True)
class Compute:
    """A stateless step."""

    name: str
    function: Callable[[Any], Any]
    multi: bool
    """Whether the function returns an iterable of messages, or None."""
    place: Place
    gathers: bool = False
    """Whether the function is called for many messages at a time; see `model.gathering`."""
    number: int = field(default=0, compare=False)
    """Number among the steps of this name in the pipeline."""


@dataclass(frozen=True)
class StateCompute:
    """A step over the state entity of each message's key."""

    name: str
    function: Callable[..., Any]
    multi: bool
    """Whether the output is an iterable of messages, or None."""
    returns_save: bool
    """Whether the function returns `(output, save)` instead of only the output."""
    partition: str
    """Name of the state."""
    key: Callable[[Any], Any] | None
    """From message to key; None for the current key of the message."""
    place: Place
    on_timer: Callable[..., Any] | None = None
    """Called with the name of a timer that is due, the entity and the timers of its key. Unless it
    is None, the function receives the timers as a third argument."""
    event_time: EventTime | None = None
    """From a message to its time; None for its time of arrival."""
    number: int = field(default=0, compare=False)
    """Number among the steps of this name in the pipeline."""


@dataclass(frozen=True)
class WindowCompute:
    """A step that aggregates the messages of each key in windows."""

    name: str
    windows: Windows
    partition: str
    """Name of the state that holds the open windows."""
    key: Callable[[Any], Any] | None
    """From message to key; None for the current key of the message."""
    place: Place
    late: Branch | None = None
    """What messages that come too late pass through; None to drop them."""
    number: int = field(default=0, compare=False)
    """Number among the steps of this name in the pipeline."""


@dataclass(frozen=True)
class KeyBy:
    """A step that assigns a key to messages, for the steps that follow."""

    name: str
    key: Callable[[Any], Any]
    place: Place
    number: int = field(default=0, compare=False)
    """Number among the steps of this name in the pipeline."""


Stateful = StateCompute | WindowCompute
Stateless = Compute | KeyBy
Step = Stateless | Stateful


@dataclass(frozen=True)
class Branch:
    """Steps, and the branches that follow them; the sinks follow if there are none."""

    steps: tuple[Step, ...]
    forks: tuple[Branch, ...] = ()
    sinks: tuple[int, ...] | None = None
    """Indices of the pipeline's sinks that follow; None for all of them."""
    number: int = field(default=0, compare=False)
    """Number among the branches of the pipeline."""

    def after(self, number: int) -> Branch:
        """Return what follows the step *number*."""
        return replace(self, steps=self.steps[number + 1 :])

    def walk(self) -> Iterator[Step]:
        """Yield every step of this branch, of its forks, and for late messages."""
        return (step for step, _ in self.walk_on())

    def walk_on(self) -> Iterator[tuple[Step, Branch]]:
        """Yield the steps that `walk` yields, each with what follows it."""
        for number, step in enumerate(self.steps):
            yield step, self.after(number)
            if isinstance(step, WindowCompute) and step.late is not None:
                yield from step.late.walk_on()
        for fork in self.forks:
            yield from fork.walk_on()

    def numbered(
        self, counts: Counter[str | None] | None = None, passed: tuple[type | None, ...] = ()
    ) -> Branch:
        """Return a copy with the numbers of branches and steps, from those of *counts* on.

        *passed* are the first ones of a state, a `KeyBy` and a step that gathers that come before.
        """
        counts = Counter() if counts is None else counts
        steps: list[Step] = []
        for step in self.steps:
            one = replace(step, number=MIXED if len(passed) == _ALL else counts[step.name])
            if isinstance(step, Stateful):
                passed = ()
            counts[step.name] += 1
            if isinstance(one, WindowCompute) and one.late is not None:
                one = replace(one, late=one.late.numbered(counts, (WindowCompute,)))
            steps.append(one)
            is_next = (
                isinstance(step, Stateful),
                isinstance(step, KeyBy),
                isinstance(step, Compute) and step.gathers,
            )
            if len(passed) < _ALL and is_next[len(passed)]:
                passed = (*passed, type(step))
        number = MIXED if len(passed) == _ALL else counts[_BRANCHES]
        counts[_BRANCHES] += 1
        forks = tuple(fork.numbered(counts, passed) for fork in self.forks)
        return replace(self, steps=tuple(steps), forks=forks, number=number)


@dataclass(frozen=True)
class Pipeline:
    """A path from one source through steps to any number of sinks."""

    name: str
    source: Source
    trunk: Branch
    sinks: tuple[Sink, ...]
    """Sinks of the outputs of all branches."""
    place: Place

    def sinks_of(self, branch: Branch) -> tuple[Sink, ...]:
        """Return the sinks that follow the steps of *branch*; none if branches follow."""
        if branch.forks:
            return ()
        if branch.sinks is None:
            return self.sinks
        return tuple(self.sinks[index] for index in branch.sinks)

    @property
    def keeps_inputs(self) -> bool:
        """Whether some outputs keep something of the records that they come from."""
        return self.source.has_records and self._keeps(self.trunk)

    def _keeps(self, branch: Branch) -> bool:
        for step in branch.steps:
            if isinstance(step, WindowCompute):  # of whose messages only late ones stay alone
                return step.late is not None and self._keeps(step.late)
        return any(map(self._keeps, branch.forks)) or any(
            sink.keeps for sink in self.sinks_of(branch)
        )

    def encoder_of(self, sink: Sink) -> str:
        """What the encoder of *sink* is called among the steps."""
        return "encoder" if len(self.sinks) == 1 else f"encoder of {sink.name}"


@dataclass(frozen=True)
class Serialization:
    """The `serialize` and `deserialize` functions of an application, for messages and state."""

    serialize: Callable[[Any], bytes]
    deserialize: Callable[[bytes], Any]


@dataclass(frozen=True)
class DeadLetters:
    """Where dead letters are published."""

    sink: Sink
    """Its encoder takes a `LostMessage`."""
    keeps: bool
    """Whether they are also kept."""


@dataclass(frozen=True)
class Application:
    """Pipelines and the states that they share."""

    name: str
    pipelines: tuple[Pipeline, ...]
    partitions: Mapping[str, StatePartition]
    serialization: Serialization | None = None
    """Custom serialization of the application; None for pickle."""
    hints: tuple[str, ...] = field(default=(), compare=False)
    """What is allowed, but probably not meant; each with its line of user code."""
    dead_letters: DeadLetters | None = None
    """Where dead letters are published; None for nowhere."""

    @property
    def wiring(self) -> str:
        """A digest of what gateway and processes have to agree on.

        They know pipelines, sources and sinks by number, and frames as this version has them.
        """
        known = (
            __version__,
            [(one.name, self.sources.index(one.source)) for one in self.pipelines],
            [(type(source).__name__, source.name) for source in self.sources],
            [(type(sink).__name__, sink.name) for sink in self.sinks],
        )
        return hashlib.sha256(repr(known).encode()).hexdigest()[:16]

    def steps_with_timers(self, partition: StatePartition) -> list[str]:
        """Names of the steps that set timers of *partition*, in order."""
        steps = [step for pipeline in self.pipelines for step in pipeline.trunk.walk()]
        return sorted(
            {
                step.name
                for step in steps
                if isinstance(step, StateCompute)
                and step.partition == partition.name
                and step.on_timer is not None
            }
        )

    @property
    def sources(self) -> tuple[Source, ...]:
        """Every source, in the order of the pipelines."""
        return tuple(dict.fromkeys(pipeline.source for pipeline in self.pipelines))

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """Every sink, in the order of the pipelines; that of dead letters is the last."""
        of_letters = () if self.dead_letters is None else (self.dead_letters.sink,)
        return (*self.output_sinks, *of_letters)

    @property
    def output_sinks(self) -> tuple[Sink, ...]:
        """The sinks of pipelines, in their order."""
        return tuple(dict.fromkeys(s for pipeline in self.pipelines for s in pipeline.sinks))
