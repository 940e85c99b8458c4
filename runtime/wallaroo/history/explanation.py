"""Explanations of the state of a key: the messages that made it, run again.

What the application has published is the truth. Messages are run again from the published state
before them, so what they did to an entity can be shown one by one; where that ends elsewhere than
what was published, both are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wallaroo.dataflow.look_ups import is_written, keys_written
from wallaroo.engine.stored import Committed
from wallaroo.gateway.log.records import Record
from wallaroo.history.changes import UNKNOWN, Change, Snapshot, Touched, Where, all_of
from wallaroo.history.debugger import Debugger
from wallaroo.history.differences import is_same
from wallaroo.history.publications import Publication
from wallaroo.history.replay import Replay
from wallaroo.model.application import Application


class Explanation:
    """The changes of the entities of a key, from the records of a log; an iterator.

    Args:
        application: The application, or other code for it.
        records: The records, from the oldest one on.
        key: The key, as text or as Python shows it.
        state: Name of the state; None for all that have the key.
        beginning: The state to begin with; None for what the log says.
        is_other: Whether it is other code: then state stays as this code makes it.
        debugger: Stops in functions that get such an entity; None for none.

    Attributes:
        lacks: Whether something was not explained because the log does not go back far enough.
    """

    def __init__(
        self,
        application: Application,
        records: Iterable[Record],
        key: str,
        state: str | None = None,
        *,
        beginning: Committed | None = None,
        is_other: bool = False,
        debugger: Debugger | None = None,
    ) -> None:
        self._replay = Replay(
            application, records, stays=is_other, beginning=beginning, debugger=debugger
        )
        self._is_other = is_other
        self._key, self._state = key, state
        states = self._replay.numbers
        self._named = {
            (name, known) for name in states if state in {name, None} for known in keys_written(key)
        }
        self.lacks = False

    def __iter__(self) -> Iterator[Change]:
        for publication, touched in self._replay:
            yield from self._changes(publication, touched)

    @property
    def begins(self) -> int:
        """Offset from which on the log has all messages, once they have been read."""
        return self._replay.publications.begins or 0

    @property
    def unread(self) -> Iterable[str]:
        """Names of the sources of messages that the application lacks."""
        return self._replay.rerun.unread

    def _changes(self, publication: Publication, touched: Touched) -> Iterator[Change]:
        wanted = {
            (name, key)
            for name, key in all_of(touched)
            if self._state in {name, None} and (key == self._key or is_written(key, self._key))
        }
        if self._is_other:
            wanted |= self._named
        made: list[Change] = []
        begun = {where: self._replay.made(where) for where in wanted}
        if wanted:
            made = self._replay.run(publication, wanted, touched)
        ended = {where: self._replay.made(where) for where in wanted}
        self._replay.settle(publication, touched, wanted)
        for where in wanted:
            self._compare(where, begun[where], ended[where], made)
        yield from made

    def _compare(
        self,
        where: Where,
        begun: Snapshot,
        ended: Snapshot,
        made: list[Change],
    ) -> None:
        """Add to what was *made* what was published of an entity, if it is something else.

        Args:
            where: The entity.
            begun: What it was before.
            ended: What it is after the messages have run again.
            made: The changes of all entities; its own is added if there is none.
        """
        recorded = self._replay.published(where)
        own = [change for change in made if change.where == where]
        if own and is_same(own[-1].after if ended.plain == UNKNOWN else ended.plain, recorded):
            return
        if not own:
            # otherwise, only the times of its key have changed
            if self._is_other or is_same(begun.plain, recorded):
                return
            own = [Change(where, None, begun=begun, ended=Snapshot(recorded))]
            made += own
        elif ended.plain == UNKNOWN:
            own[-1].ended = Snapshot(recorded)
        else:
            own[-1].recorded = recorded
        self.lacks = self.lacks or begun.plain == UNKNOWN
