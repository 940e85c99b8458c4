"""Publications of a log, one after the other, beside what their messages make when run again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from wallaroo.codecs.waiting import without_waiting
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.json_codec import to_plain
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.state_records import unpacked_changes
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.log.records import Record
from wallaroo.history.changes import UNKNOWN, Change, Debugs, Snapshot, Touched, Where, all_of
from wallaroo.history.differences import ABSENT
from wallaroo.history.publications import Publication, Publications
from wallaroo.history.rerun import Rerun
from wallaroo.model.application import Application


class Replay:
    """Runs the messages of a log again, publication by publication.

    Args:
        application: The application, or other code for it.
        records: The records of the log, from the oldest one on.
        stays: Whether entities stay as messages that are run again make them; otherwise they become
            what was published after each publication.
        debugs: Whether a debugger stops in functions that get an entity in question, if at all.
    """

    def __init__(
        self,
        application: Application,
        records: Iterable[Record],
        *,
        stays: bool = False,
        debugs: Debugs | None = None,
    ) -> None:
        self.publications = Publications(records)
        program = Program(application, 1)
        self.numbers = program.partition_numbers
        self._serializer = EntitySerializer.of(program)
        self._stays = stays
        self._made = self._serializer.read(())
        self._published = self._serializer.read(()) if stays else self._made
        self.others: dict[str, set[Any]] = {}
        """Keys of entities by state, for states that the application lacks."""
        self._seen: set[Where] = set()
        """The entities that the log says something of, so far."""
        self.rerun = Rerun(
            application, program, self._made, self._is_known, stays=stays, debugs=debugs
        )

    def __iter__(self) -> Iterator[tuple[Publication, Touched]]:
        """Yield each publication with what it changed; what it says holds after that."""
        with without_waiting():
            for publication in self.publications:
                touched: dict[str, set[Any]] = {}
                for record in publication.changes:
                    for name, changes in unpacked_changes(record).items():
                        keys = changes.all_keys()
                        if name in self.numbers:
                            touched.setdefault(name, set()).update(keys)
                        else:
                            others = self.others.setdefault(name, set())
                            others |= keys
                            others.difference_update(changes.forgotten)
                yield publication, touched

    def run(self, publication: Publication, wanted: set[Where], touched: Touched) -> list[Change]:
        """Run the messages again, if the log has them; what they did to the entities *wanted*."""
        if publication.start < (self.publications.begins or 0):
            return []
        return self.rerun.changes(publication, wanted, touched)

    def settle(self, publication: Publication, touched: Touched, wanted: set[Where]) -> None:
        """Take over what was published.

        Raises:
            RuntimeFailure: An entity of those *wanted* cannot be loaded.
        """
        for record in publication.changes:
            self._serializer.apply(record, self._published)
            if self._stays:
                self._add_unknown(record)
        if not self.publications.is_whole:
            self._seen.update(all_of(touched))
        for one in self._published.unloaded.values():
            if (one.state, one.key) in wanted:
                raise RuntimeFailure(str(one))

    def made(self, where: Where) -> Snapshot:
        """An entity as messages that were run again have made it."""
        return self.rerun.snapshot(where)

    def published(self, where: Where) -> Any:
        """An entity as it was published last, in plain form."""
        entity = self._published.entities[self.numbers[where[0]]].get(where[1], ABSENT)
        if entity is not ABSENT:
            return to_plain(entity)
        return ABSENT if self._is_known(where) else UNKNOWN

    def all_entities(self) -> set[Where]:
        """State and key of all entities, however they came to be."""
        return {
            (name, key)
            for bucket in (self._made, self._published)
            for name, number in self.numbers.items()
            for key in bucket.entities[number]
        }

    def _add_unknown(self, record: bytes) -> None:
        """Begin with entities that were there before the log begins, as they were published."""
        if self.publications.is_whole:
            return
        scratch = self._serializer.read((record,))
        for name, number in self.numbers.items():
            for key, entity in scratch.entities[number].items():
                if (name, key) not in self._seen:
                    self.rerun.begin_with((name, key), entity, scratch.times.get((number, key)))

    def _is_known(self, where: Where) -> bool:
        return self.publications.is_whole or where in self._seen
