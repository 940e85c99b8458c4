"""Other code over the messages of a log: what it would have sent, and made of the state."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wallaroo.gateway.log.records import Record
from wallaroo.history.changes import all_of
from wallaroo.history.differences import Difference, differences
from wallaroo.history.replay import Replay
from wallaroo.model.application import Application
from wallaroo.user_code.exceptions import short_repr

DEAD_LETTERS = "dead letters"
"""Name under which their number may differ."""
_SUBSCRIPT = re.compile(r"\[[^\]]*\]")


class Kind(NamedTuple):
    """Differences of entities that are alike."""

    state: str
    place: str
    """Where in the entity, with `[…]` for any key or index."""


class Example(NamedTuple):
    """One of the differences of a kind."""

    key: Any
    difference: Difference


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


@dataclass
class Rehearsal:
    """What other code makes of the messages in a log; see `of`."""

    messages: int = 0
    """Messages that were run again."""
    unread: Counter[str] = field(default_factory=Counter)
    """Messages that were not, by the name of their source, which the application lacks."""
    others: dict[str, int] = field(default_factory=dict)
    """Entities that were published, by the name of their state, which the application lacks."""
    sinks: dict[str, OfSink] = field(default_factory=dict)
    """Outputs by the name of their sink; empty if the log does not begin with the first message,
    because outputs of unknown entities would be missing."""
    entities: Counter[str] = field(default_factory=Counter)
    """Entities that are compared, by state."""
    differing: Counter[str] = field(default_factory=Counter)
    """Those that differ."""
    kinds: Counter[Kind] = field(default_factory=Counter)
    """Differences by kind."""
    examples: dict[Kind, Example] = field(default_factory=dict)
    letters: tuple[int, int] = (0, 0)
    """Dead letters then, and with the other code."""
    is_whole: bool = True
    """Whether the log begins with the first message."""

    @classmethod
    def of(cls, application: Application, records: Iterable[Record]) -> Rehearsal:
        """Run *application* over the messages in the *records* of a log."""
        replay, found = Replay(application, records, stays=True), cls()
        sinks = {sink.name: sink for sink in application.output_sinks}
        published: dict[str, Counter[bytes]] = {name: Counter() for name in sinks}
        made: dict[str, Counter[bytes]] = {name: Counter() for name in sinks}
        replay.rerun.on_sent = lambda sink, output, _arrival: made[sink].update((output,))
        letters = 0
        for publication, touched in replay:
            replay.run(publication, set(), touched)
            replay.settle(publication, touched, set(all_of(touched)))
            letters += publication.letters
            for name, outputs in publication.outputs:
                counter = published.setdefault(name, Counter())
                value = sinks[name].value if name in sinks else bytes
                counter.update(map(value, outputs.cut()))
        found.messages, found.unread = replay.rerun.messages, replay.rerun.unread
        found.others = {name: len(keys) for name, keys in replay.others.items() if keys}
        found.is_whole = replay.publications.is_whole
        found.letters = (letters, replay.rerun.dead_letters)
        if found.is_whole:
            found._compare_outputs(published, made)
        found._compare_entities(replay)
        return found

    def differing_names(self) -> set[str]:
        """Names of the sinks, states and sources that differ, and `dead letters`."""
        names = {name for name, of in self.sinks.items() if of.differs}
        then, now = self.letters
        if self.is_whole and then != now:
            names.add(DEAD_LETTERS)
        return names.union(self.differing, self.others, self.unread)

    def _compare_outputs(
        self, published: Mapping[str, Counter[bytes]], made: Mapping[str, Counter[bytes]]
    ) -> None:
        for name, then in published.items():
            now = made.get(name, Counter())
            self.sinks[name] = OfSink((then & now).total(), then - now, now - then)

    def _compare_entities(self, replay: Replay) -> None:
        for where in sorted(replay.all_entities(), key=lambda one: (one[0], short_repr(one[1]))):
            now, then = replay.made(where).plain, replay.published(where)
            state, key = where
            self.entities[state] += 1
            found = list(differences(then, now))
            self.differing[state] += bool(found)
            of_kind: dict[Kind, Difference] = {}
            for one in found:
                of_kind.setdefault(Kind(state, _SUBSCRIPT.sub("[…]", one.place)), one)
            self.kinds.update(of_kind.keys())
            for kind, one in of_kind.items():
                self.examples.setdefault(kind, Example(key, one))
        self.differing = +self.differing
