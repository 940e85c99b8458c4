"""Dead letters that wait in the log to be stored."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator, Sequence

import structlog

from wallaroo.gateway.database import lacks_room
from wallaroo.gateway.dead_letters.letters import Letter
from wallaroo.gateway.dead_letters.store import DeadLetterStore
from wallaroo.gateway.writer import LogWriter

LettersOfRecord = tuple[int, int, Sequence[Letter]]
"""Address and number of a record, and the letters that it has."""
_SYNC_S = 1.0
"""Longest wait for a pending sync, in seconds: on a full disk, it may take arbitrarily long."""

log = structlog.get_logger("wallaroo.gateway")


class WaitingLetters:
    """Takes letters from the log to their store, once their records are on disk.

    Args:
        writer: Writes the log.
        store: Where they are stored.
    """

    def __init__(self, writer: LogWriter, store: DeadLetterStore) -> None:
        self._writer, self._changed, self._store = writer, writer.changed, store
        self._lock = threading.Lock()
        """Held while the store is used; taken before the lock of the log."""
        self._waiting: deque[LettersOfRecord] = deque()
        """Those that are yet to be stored, in order."""
        self._lacks_room = False
        """Whether the disk has no room for them."""

    def begin(self, found: Sequence[LettersOfRecord]) -> None:
        """Begin with what was *found* in the log."""
        self._waiting.extend(found)
        with self.transaction() as store:
            store.begin(self._writer.log.name.hex(), self._writer.log.next - 1)

    def add(self, address: int, letters: Sequence[Letter]) -> None:
        """Let *letters* of the last record wait, which has this address; `changed` is held."""
        self._waiting.append((address, self._writer.log.next - 1, letters))

    def wait_for_disk(self) -> None:
        """Wait, but not for long, until the letters that `counters` counts are on disk."""
        with self._changed:
            last = self._waiting[-1][1] if self._waiting else 0
            self._changed.wait_for(lambda: self._writer.log.durable >= last, _SYNC_S)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[DeadLetterStore]:
        """The store with all that is on disk, for one transaction, which may take long."""
        try:
            with self._lock:
                self._take_over()
                with self._store.transaction():
                    yield self._store
        finally:
            if self._waiting:  # the writer's turns did not wait for the lock
                with self._changed:
                    self._writer.wake()

    def store(self) -> None:
        """Store those whose records are on disk, unless someone uses the store.

        If the disk has no room for that, they stay in the log until it has.
        """
        if self._waiting and self._lock.acquire(blocking=False):
            try:
                self._take_over()
            finally:
                self._lock.release()

    def _take_over(self) -> None:
        try:
            name = self._writer.log.name.hex()
            while self._waiting and self._waiting[0][1] <= self._writer.log.durable:
                _, number, letters = self._waiting[0]
                with self._store.transaction():
                    self._store.take(name, number, letters)
                with self._changed:
                    self._waiting.popleft()
            if self._lacks_room:
                self._lacks_room = False
                log.info("dead letters stored")
        except sqlite3.Error as error:
            if not lacks_room(error):
                raise
            if not self._lacks_room:
                self._lacks_room = True
                log.warning("dead letters wait", reason=f"the disk has no room: {error}")

    def counters(self) -> dict[str, int]:
        """Letters that are kept now, `letters`, and those dropped over limits, `letters_gone`."""
        with self._lock:
            totals = self._store.totals
            with self._changed:
                waiting = sum(len(letters) for *_, letters in self._waiting)
        return {"letters": totals["letters"] + waiting, "letters_gone": totals["dropped"]}

    @property
    def needed_from(self) -> int | None:
        """Address in the log from which on letters are needed; None if none are."""
        return self._waiting[0][0] if self._waiting else None
