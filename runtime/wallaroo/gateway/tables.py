"""Tables that are read to their ends before the sources whose messages are joined with them.

What is read first is handed to the journal first, so messages meet the table as it was when the
gateway started, or later. A source that waits stands in nobody's way: it is not idle, and no time
passes for keys of its messages.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

import structlog

from wallaroo.model.application import Application
from wallaroo.model.order import BEGINNING
from wallaroo.model.tables import tables_of
from wallaroo.system.printable import counted

log = structlog.get_logger("wallaroo.gateway")


class Tables:
    """Knows which tables are read, and which sources wait for them; for any thread.

    Args:
        application: The application; None for one without tables.
    """

    def __init__(self, application: Application | None = None) -> None:
        self._waits = {} if application is None else tables_of(application)
        self._names = () if application is None else [one.name for one in application.sources]
        self._unread = {table for tables in self._waits.values() for table in tables}
        self._left: dict[int, int] = {}
        """Records that are left of a table, by its index, where that is known."""
        self._began = time.monotonic()
        self._calls: list[tuple[int, Callable[[], object]]] = []
        self._changed = threading.Condition()

    def awaited_by(self, source: int) -> list[int]:
        """The tables, by index, that *source* waits for."""
        return sorted(self._waits.get(source, frozenset()) & self._unread)

    def wait(self, source: int, timeout_s: float) -> bool:
        """Wait for the tables of *source*; returns whether they are read."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.awaited_by(source), timeout_s)

    def call_when_read(self, source: int, call: Callable[[], object]) -> None:
        """Call *call* once the tables of *source* are read; from the thread that has read them."""
        with self._changed:
            self._calls.append((source, call))
        self._call()

    def is_awaited(self, table: int) -> bool:
        """Whether *table* is one, and not read yet."""
        return table in self._unread

    def note_left(self, table: int, records: int) -> None:
        """Note how many records of *table* are left, about; none if it is read."""
        self._left[table] = records
        if not records:
            self.note_read(table)

    def note_read(self, table: int) -> None:
        """Note that *table*, if it is one, is read, and handed to the journal."""
        with self._changed:
            if table not in self._unread:
                return
            self._unread.discard(table)
            self._changed.notify_all()
        seconds = round(time.monotonic() - self._began, 1)
        log.info("table read", table=self._names[table], seconds=seconds)
        self._call()

    def holds(self, sources: Iterable[int]) -> Callable[[], int | None] | None:
        """See `wallaroo.gateway.silence.Reading`: messages of *sources* wait while one does.

        It is None if none ever does.
        """
        waiting = [source for source in sources if source in self._waits]
        if not waiting:
            return None
        return lambda: BEGINNING if any(map(self.awaited_by, waiting)) else None

    def reason(self, source: int, problem_of: Callable[[int], str | None]) -> str | None:
        """What *source* waits for, in words; None if it does not wait.

        Args:
            source: Its index.
            problem_of: Returns why a source cannot be read; None if it can.
        """
        parts = []
        for table in self.awaited_by(source):
            left, problem = self._left.get(table), problem_of(table)
            about = "" if left is None else f" ({counted(left, 'record')} left)"
            about += "" if problem is None else f", which cannot be read: {problem}"
            parts.append(f"table {self._names[table]!r}{about}")
        return f"waits for {' and '.join(parts)}" if parts else None

    def awaited(self) -> dict[str, list[str]]:
        """The names of tables that are not read, each with those of the sources that wait."""
        waiting = {one: self.awaited_by(one) for one in self._waits}
        return {
            self._names[table]: [self._names[one] for one in waiting if table in waiting[one]]
            for table in sorted(self._unread)
        }

    def left(self, table: str) -> int | None:
        """How many records of *table* are left, about; None if that is not known."""
        return self._left.get(self._names.index(table))

    def _call(self) -> None:
        with self._changed:
            due = [one for one in self._calls if not self.awaited_by(one[0])]
            self._calls = [one for one in self._calls if one not in due]
        for _, call in due:
            call()
