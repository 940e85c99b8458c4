"""Why the entities of a key are what they are: the messages that made them, run again.

What the application has published is the truth. Messages are run again from the published state
before them, so what they did to an entity can be shown one by one; where that ends elsewhere than
what was published, both are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wallaroo.codecs.waiting import without_waiting
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.state_records import unpacked_changes
from wallaroo.gateway.log.records import Record
from wallaroo.history.differences import is_same
from wallaroo.history.publications import Publication, Publications
from wallaroo.history.rerun import UNKNOWN, Change, Rerun, Where
from wallaroo.model.application import Application


class Explanation:
    """The changes of the entities of a key, from the records of a log; an iterator.

    Args:
        application: The application.
        records: The records, from the oldest one on.
        key: The key, as text or as Python shows it.
        state: Name of the state; None for all that have the key.
        debugs: Whether a debugger stops in functions that get such an entity.

    Attributes:
        found: The entities that were changed.
        lacks: Whether something was not explained because the log does not go back far enough.
    """

    def __init__(
        self,
        application: Application,
        records: Iterable[Record],
        key: str,
        state: str | None = None,
        *,
        debugs: bool = False,
    ) -> None:
        self._publications = Publications(records)
        program = Program(application, 1)
        self._serializer = EntitySerializer.of(program)
        self._bucket = self._serializer.read(())
        self._seen: set[Where] = set()
        """The entities that the log says something of, so far."""
        self._key, self._state = key, state
        self._rerun = Rerun(application, program, self._bucket, self._is_known, debugs=debugs)
        self._states = frozenset(application.partitions)
        self.found: dict[Where, int] = {}
        self.lacks = False

    def __iter__(self) -> Iterator[Change]:
        with without_waiting():
            for publication in self._publications:
                yield from self._changes(publication)

    def _changes(self, publication: Publication) -> Iterator[Change]:
        touched: dict[str, set[object]] = {}
        for record in publication.changes:
            for name, changes in unpacked_changes(record).items():
                if name in self._states:
                    touched.setdefault(name, set()).update(changes.all_keys())
        wanted = {
            (name, key)
            for name, keys in touched.items()
            if self._state in {name, None}
            for key in keys
            if key == self._key or (type(key) is not str and self._key in _texts(key))
        }
        made: list[Change] = []
        begun = {where: self._rerun.entity(where) for where in wanted}
        if wanted:
            begins = self._publications.begins or 0
            if publication.start >= begins:
                made = self._rerun.changes(publication, wanted, touched)
        ended = {where: self._rerun.entity(where) for where in wanted}
        for record in publication.changes:
            self._serializer.apply(record, self._bucket)
        if not self._publications.is_whole:
            self._seen.update((name, key) for name, keys in touched.items() for key in keys)
        for where in wanted:
            self.found[where] = self.found.get(where, 0) + 1
            self._compare(where, begun[where], ended[where], made)
        yield from made

    def _compare(
        self,
        where: Where,
        begun: object,
        ended: object,
        made: list[Change],
    ) -> None:
        """Add to what was *made* what was published of an entity, if it is something else.

        Args:
            where: The entity.
            begun: What it was before.
            ended: What it is after the messages have run again.
            made: The changes of all entities; its own is added if there is none.
        """
        recorded = self._rerun.entity(where)
        own = [change for change in made if change.where == where]
        if own and is_same(own[-1].after if ended == UNKNOWN else ended, recorded):
            return
        if not own:
            if is_same(begun, recorded):  # only the times of its key have changed
                return
            own = [Change(where, None, before=begun, after=recorded)]
            made += own
        elif ended == UNKNOWN:
            own[-1].after = recorded
        else:
            own[-1].recorded = recorded
        self.lacks = self.lacks or begun == UNKNOWN

    def _is_known(self, where: Where) -> bool:
        return self._publications.is_whole or where in self._seen


def _texts(key: object) -> tuple[str, str]:
    try:
        return str(key), repr(key)
    except Exception:  # it is no text then
        return "", ""
