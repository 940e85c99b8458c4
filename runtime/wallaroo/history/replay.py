"""Publications of a log, one after the other, beside what their messages make when run again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from wallaroo.codecs.waiting import without_waiting
from wallaroo.dataflow.buckets import Bucket
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.state_records import StateChanges, unpacked_changes
from wallaroo.engine.stored import Committed
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway.journal.openings import departure
from wallaroo.gateway.log.records import Record
from wallaroo.history.changes import (
    UNKNOWN,
    Change,
    Snapshot,
    Touched,
    Where,
    all_of,
    plain_of,
)
from wallaroo.history.debugger import Debugger
from wallaroo.history.differences import ABSENT
from wallaroo.history.publications import Publication, Publications
from wallaroo.history.rerun import Rerun
from wallaroo.history.step_times import StepTimes, TimedRerun
from wallaroo.model.application import Application


class Replay:
    """Runs the messages of a log again, publication by publication.

    Args:
        application: The application, or other code for it.
        records: The records of the log, from the oldest one on.
        stays: Whether entities stay as messages that are run again make them; otherwise they become
            what was published after each publication.
        beginning: The state to begin with; publications before it are left out.
        debugger: Stops in functions that get an entity in question; None for none.
        times: Adds up the time that functions take; None for not to measure it.
    """

    def __init__(
        self,
        application: Application,
        records: Iterable[Record],
        *,
        stays: bool = False,
        beginning: Committed | None = None,
        debugger: Debugger | None = None,
        times: StepTimes | None = None,
    ) -> None:
        self.publications = Publications(records)
        program = Program(application, 1)
        self.numbers = program.partition_numbers
        self._serializer = EntitySerializer.of(program)
        self._stays, self._beginning = stays, beginning
        self._has_begun = False
        """Whether it has begun with a state."""
        self._made = self._serializer.read(())
        self._published = self._serializer.read(()) if stays else self._made
        self.others: dict[str, set[Any]] = {}
        """Keys of entities by state, for states that the application lacks."""
        self._seen: set[Where] = set()
        """The entities that the log says something of, so far."""
        kind = Rerun if times is None else partial(TimedRerun, times)
        self.rerun = kind(
            application, program, self._made, self._is_known, stays=stays, debugger=debugger
        )

    def __iter__(self) -> Iterator[tuple[Publication, Touched]]:
        """Yield each publication with what it changed; what it says holds after that."""
        with without_waiting():
            for publication in self.publications:
                if self._beginning is not None and not self._has_begun:
                    if publication.end <= self._beginning.offset:
                        continue
                    self._begin(publication, self._beginning)
                touched: dict[str, set[Any]] = {}
                for record in publication.changes:
                    for name, changes in self._named(record):
                        touched.setdefault(name, set()).update(changes.all_keys())
                yield publication, touched

    def run(self, publication: Publication, wanted: set[Where], touched: Touched) -> list[Change]:
        """Run the messages again, if the log has them; what they did to the entities *wanted*."""
        if not self.has(publication):
            return []
        return self.rerun.changes(publication, wanted, touched)

    def has(self, publication: Publication) -> bool:
        """Whether the log has all messages of *publication*, and the state before them is there."""
        begins = self.publications.begins or 0
        return publication.start >= max(begins, self._beginning.offset if self._beginning else 0)

    @property
    def knows_all(self) -> bool:
        """Whether each entity is known: there was none, or it was there at the beginning."""
        return self.publications.is_whole or self._has_begun

    def settle(self, publication: Publication, touched: Touched, wanted: set[Where]) -> None:
        """Take over what was published.

        Raises:
            RuntimeFailure: An entity of those *wanted* cannot be loaded.
        """
        for record in publication.changes:
            self._serializer.apply(record, self._published)
            if self._stays and not self.has(publication):
                self._serializer.apply(record, self._made)
                self.rerun.take_times()
        if self._stays and self.has(publication) and not self.knows_all:
            self._add_unknown(publication.changes)
        if not self.knows_all:
            self._seen.update(all_of(touched))
        for one in self._published.unloaded.values():
            if (one.state, one.key) in wanted:
                raise RuntimeFailure(str(one))

    def made(self, where: Where) -> Snapshot:
        """An entity as messages that were run again have made it."""
        return self.rerun.snapshot(where)

    def made_now(self, where: Where) -> Any:
        """The same in plain form; nothing if the entity has expired."""
        entity = self._entity(self._made, where)
        if entity is not ABSENT and not self.rerun.is_expired(where, self.rerun.time_of(where)):
            return plain_of(lambda: entity)
        return ABSENT if self._is_known(where) else UNKNOWN

    def published_now(self, where: Where) -> Any:
        """An entity as it was published last, likewise."""
        time = self._published.times.get((self.numbers[where[0]], where[1]))
        return ABSENT if self.rerun.is_expired(where, time) else self.published(where)

    def unsavable(self, where: Where) -> str | None:
        """Why an entity that was made could not be saved; None if it can be, or is not there."""
        number, key = self.numbers[where[0]], where[1]
        if (entity := self._entity(self._made, where)) is ABSENT:
            return None
        return self._serializer.problems(number, {key: entity}).get(key)

    def published(self, where: Where) -> Any:
        """An entity as it was published last, in plain form."""
        entity = self._entity(self._published, where)
        if entity is not ABSENT:
            return plain_of(lambda: entity)
        return ABSENT if self._is_known(where) else UNKNOWN

    def entities(self) -> Counter[str]:
        """How many entities there are by state, made or published."""
        made, published = self._made.entities, self._published.entities
        return Counter(
            {name: len(made[n].keys() | published[n].keys()) for name, n in self.numbers.items()}
        )

    def _begin(self, publication: Publication, beginning: Committed) -> None:
        """Begin with a state.

        Raises:
            UsageError: It is of another state directory, or of a copy that has continued
                separately, or the log has not all messages since.
            RuntimeFailure: An entity cannot be loaded.
        """
        if publication.run != beginning.run:
            msg = "the log and the state to begin with are of different state directories"
            raise UsageError(msg)
        if (begins := self.publications.begins or 0) > beginning.offset:
            msg = (
                f"the log has messages from offset {begins:,} on, and the state to begin with ends "
                f"before offset {beginning.offset:,}; --archive reads what the run has archived, "
                "and --keep-messages-gib of the run keeps more of the log"
            )
            raise UsageError(msg)
        if self._departs(beginning):
            msg = (
                "the log and the state to begin with are of copies of a state directory that have "
                "continued separately: begin with a snapshot of the state directory that has the "
                "log"
            )
            raise UsageError(msg)
        self._has_begun = True
        for record in beginning.records:
            self._serializer.apply(record, self._made)
            if self._stays:
                self._serializer.apply(record, self._published)
            self._named(record)
        self._beginning = beginning._replace(records=())  # they may be many
        self.rerun.take_times()
        if unloaded := [*self._published.unloaded.values()]:
            more = f"; {len(unloaded):,} entities cannot be loaded" if len(unloaded) > 1 else ""
            msg = f"{unloaded[0]}{more}"
            raise RuntimeFailure(msg)

    def _departs(self, beginning: Committed) -> bool:
        """Whether other messages than those of the log are in the state to begin with."""
        end, opening = beginning.offset, beginning.opening
        openings = self.publications.openings
        return opening is not None and departure(openings, end, end, opening) is not None

    def _named(self, record: bytes) -> list[tuple[str, StateChanges]]:
        """What *record* says of states that the application has; keys of others are noted."""
        changed = unpacked_changes(record)
        for name in changed.keys() - self.numbers.keys():
            others = self.others.setdefault(name, set())
            others |= changed[name].all_keys()
            others.difference_update(changed[name].forgotten)
        return [(name, changes) for name, changes in changed.items() if name in self.numbers]

    def _add_unknown(self, changes: list[bytes]) -> None:
        """Begin with entities that were there before the log begins, as they were published."""
        scratch = self._serializer.read(changes)  # all, as each chunk may have changed an entity
        for name, number in self.numbers.items():
            for key, entity in scratch.entities[number].items():
                if (name, key) not in self._seen:
                    self.rerun.begin_with((name, key), entity, scratch.times.get((number, key)))

    def _entity(self, bucket: Bucket, where: Where) -> Any:
        return bucket.entities[self.numbers[where[0]]].get(where[1], ABSENT)

    def _is_known(self, where: Where) -> bool:
        return self.knows_all or where in self._seen
