"""Other code over the messages of a log: what it would have sent, and made of the state."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from wallaroo.connectors.threads import described
from wallaroo.engine.stored import Committed
from wallaroo.gateway.log.records import Record
from wallaroo.history.changes import Arrival, Where, all_of
from wallaroo.history.differences import Difference, differences
from wallaroo.history.publications import Publication
from wallaroo.history.replay import Replay
from wallaroo.history.step_times import StepTimes
from wallaroo.model.application import Application
from wallaroo.user_code.exceptions import short_repr

DEAD_LETTERS = "dead letters"
"""Name under which their number may differ."""
UNSAVABLE = "cannot be saved"
"""In the place of a difference, for entities whose messages would become dead letters."""
LETTERS_SHOWN = 3
"""Dead letters of the other code that are kept as examples."""
_SUBSCRIPT = re.compile(r"\[[^\]]*\]")


class Kind(NamedTuple):
    """Differences of entities that are alike."""

    state: str
    place: str
    """Where in the entity, with `[…]` for any key or index."""


class Example(NamedTuple):
    """One of the differences of a kind."""

    key: Any
    difference: Difference | str
    """The difference; for `UNSAVABLE`, the reason."""
    arrival: Arrival | None
    """The last message that the other code had for the entity before it was compared; None if it
    had none."""


class FailedCall(NamedTuple):
    """A message that would become a dead letter."""

    step: str
    error: str
    """What was raised, and where."""
    arrival: Arrival | None


@dataclass
class OfSink:
    """The outputs of a sink."""

    same: int = 0
    missing: Counter[bytes] = field(default_factory=Counter)
    """Outputs that were published and would not be sent."""
    further: Counter[bytes] = field(default_factory=Counter)
    """Outputs that would be sent and were not published."""

    @property
    def differs(self) -> bool:
        """Whether there are any."""
        return bool(self.missing or self.further)

    def was_published(self, output: bytes) -> None:
        """Note an output that was published."""
        self._note(output, self.further, self.missing)

    def is_made(self, output: bytes) -> None:
        """Note an output that would be sent."""
        self._note(output, self.missing, self.further)

    def _note(self, output: bytes, awaited: Counter[bytes], alone: Counter[bytes]) -> None:
        if output not in awaited:
            alone[output] += 1
            return
        self.same += 1
        awaited[output] -= 1
        if not awaited[output]:
            del awaited[output]


class Rehearsal:
    """Runs other code over the messages of a log, and compares what comes of it.

    Iterate over it to run one publication after the other, and call `compare` to compare the
    entities of those run so far; outputs are compared at once.

    Args:
        application: The application.
        records: The records of the log.
        beginning: The state to begin with; None for what the log says.
        times: Adds up the time that functions take; None for not to measure it.

    Attributes:
        application: The application.
        sinks: Outputs by the name of their sink, while all entities are known: otherwise, outputs
            would be missing.
        differing: By entity that differs, an example of each kind of difference.
        passed: Kinds of differences that were found and are gone, with an example of each.
        letters: How many dead letters there were while all entities are known.
        failed: The first messages that the other code makes dead letters, while that is so.
    """

    def __init__(
        self,
        application: Application,
        records: Iterable[Record],
        beginning: Committed | None = None,
        times: StepTimes | None = None,
    ) -> None:
        self.application = application
        self._replay = Replay(application, records, stays=True, beginning=beginning, times=times)
        self._sinks = {sink.name: sink for sink in application.output_sinks}
        self.sinks = {name: OfSink() for name in self._sinks}
        self.differing: dict[Where, dict[Kind, Example]] = {}
        self.passed: dict[Kind, Example] = {}
        self.letters = 0
        self.failed: list[FailedCall] = []
        self._letters_before = 0
        """Dead letters of the other code before all entities were known."""
        self._reached: dict[Where, Arrival | None] = {}
        """Entities that are yet to be compared, with the last message that each of them had."""
        rerun = self._replay.rerun
        rerun.on_sent, rerun.on_reached = self._is_made, self._reached.__setitem__
        rerun.on_set_aside = self._has_failed

    @classmethod
    def of(
        cls,
        application: Application,
        records: Iterable[Record],
        beginning: Committed | None = None,
    ) -> Self:
        """Run *application* over all messages in *records*, and compare."""
        made = cls(application, records, beginning)
        made.run()
        return made

    def run(self) -> None:
        """Run all messages, and compare."""
        for _ in self:
            pass
        self.compare()

    def __iter__(self) -> Iterator[Publication]:
        """Run the messages of one publication after the other, and yield it then.

        Raises:
            RuntimeFailure: An entity cannot be loaded.
        """
        replay = self._replay
        for publication, touched in replay:
            replay.run(publication, set(), touched)
            if not self.knows_all:
                self._letters_before = replay.rerun.dead_letters
            for where in all_of(touched):
                self._reached.setdefault(where, None)
            if self.knows_all and replay.has(publication):
                self._compare_outputs(publication)
            replay.settle(publication, touched, set(all_of(touched)))
            yield publication

    @property
    def knows_all(self) -> bool:
        """Whether all entities are known, so that outputs are compared."""
        return self._replay.knows_all

    @property
    def messages(self) -> int:
        """How many messages were run."""
        return self._replay.rerun.messages

    @property
    def unread(self) -> Counter[str]:
        """How many were not, by the name of their source, which the application lacks."""
        return self._replay.rerun.unread

    @property
    def dead_letters(self) -> int:
        """How many dead letters the other code makes in all."""
        return self._replay.rerun.dead_letters

    @property
    def new_letters(self) -> int:
        """How many dead letters the other code makes, where `letters` counts."""
        return self.dead_letters - self._letters_before

    @property
    def others(self) -> dict[str, int]:
        """Published entities by the name of their state, for states that the application lacks."""
        return {name: len(keys) for name, keys in self._replay.others.items() if keys}

    def entities(self) -> Counter[str]:
        """How many entities there are by state."""
        return self._replay.entities()

    def differing_names(self) -> set[str]:
        """Names of the sinks, states and sources that differ, and `dead letters`."""
        names = {name for name, of in self.sinks.items() if of.differs}
        unsavable = any(kind.place == UNSAVABLE for kind in self._present())
        if self.letters != self.new_letters or unsavable:
            names.add(DEAD_LETTERS)
        states = {*(name for name, _ in self.differing), *(kind.state for kind in self.passed)}
        return names.union(states, self.others, self.unread)

    def compare(self) -> None:
        """Compare the entities that have changed since it was called last."""
        for where, arrival in self._reached.items():
            before = self.differing.pop(where, {})
            if found := self._differences(where, arrival):
                self.differing[where] = found
            for kind in before.keys() - found.keys():
                self.passed.setdefault(kind, before[kind])
        self._reached.clear()
        present = self._present()
        self.passed = {kind: one for kind, one in self.passed.items() if kind not in present}

    def kinds(self) -> dict[Kind, list[Example]]:
        """The differences of entities by kind, the most frequent ones first."""
        kinds: dict[Kind, list[Example]] = {}
        for where in sorted(self.differing, key=lambda one: (one[0], short_repr(one[1]))):
            for kind, example in self.differing[where].items():
                kinds.setdefault(kind, []).append(example)
        return dict(sorted(kinds.items(), key=lambda one: -len(one[1])))

    def _present(self) -> set[Kind]:
        """The kinds of differences that there are now."""
        return {kind for kinds in self.differing.values() for kind in kinds}

    def _differences(self, where: Where, arrival: Arrival | None) -> dict[Kind, Example]:
        found: dict[Kind, Example] = {}
        state, key = where
        if (reason := self._replay.unsavable(where)) is not None:
            return {Kind(state, UNSAVABLE): Example(key, reason, arrival)}
        now, then = self._replay.made_now(where), self._replay.published_now(where)
        for one in differences(then, now):
            kind = Kind(state, _SUBSCRIPT.sub("[…]", one.place))
            found.setdefault(kind, Example(key, one, arrival))
        return found

    def _has_failed(self, step: str, error: BaseException, arrival: Arrival | None) -> None:
        if self.knows_all and len(self.failed) < LETTERS_SHOWN:
            self.failed.append(FailedCall(step, described(error), arrival))

    def _is_made(self, sink: str, output: bytes, _arrival: Arrival) -> None:
        if self.knows_all:
            self.sinks[sink].is_made(output)

    def _compare_outputs(self, publication: Publication) -> None:
        self.letters += publication.letters
        for name, _, outputs in publication.outputs:
            value = self._sinks[name].value if name in self._sinks else bytes
            of = self.sinks.setdefault(name, OfSink())
            for output in outputs.cut():
                of.was_published(value(output))
