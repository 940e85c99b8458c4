"""The only writer of the gateway's log: in turns, each with one write and at most one sync.

Whoever has something for the log appends it and asks for a turn; a turn writes all that was
appended since the last one, and tells those who wait once it is surely on disk. Turns are taken by
one thread, which the owner chooses: in a gateway, that of the event loop.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import structlog

from wallaroo.gateway.log.kept import Keep
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.records import SNAPSHOT, NoRoom
from wallaroo.gateway.marks import Mark, MarkWriter
from wallaroo.system.disk_space import free_bytes, reserved_bytes

LAZY_S = 0.005
"""Time that records which nobody waits for are written and not synced, at most: a publication that
follows within this time spares their sync."""
_RETRY_S = 0.5
"""Pause before a write for which the disk had no room is tried again."""
_LOOK_EVERY_S = 0.25
"""Time for which the free space of the disk is taken to be the same."""
_SLOW_S = 0.001
"""Syncs that take longer than this, on average, are left to a thread of their own: the loop is not
to stand still for a slow disk. A fast one is waited for, which costs less than a thread."""
_WEIGHT = 0.2
"""Weight of the last sync in that average."""
_SNAPSHOT_EVERY = 4096
"""Records after which a snapshot follows, so that recovery reads few records in detail."""

log = structlog.get_logger("wallaroo.gateway")


class LogWriter:
    """Appends to one log, for any thread.

    Args:
        directory: The directory of the log.
        schedule: Lets `turn` be called soon by the thread that takes the turns; for any thread.
        snapshot: Returns the present tables; called with `changed` held.
        reached: Returns the offset after the last message on disk, and the name of the last
            opening, for the mark.
        keep: What is kept of released segments, as long as the disk has room.
    """

    def __init__(
        self,
        directory: Path,
        schedule: Callable[[], None],
        snapshot: Callable[[], bytes],
        reached: Callable[[], tuple[int, str]],
        keep: Keep = Keep(),  # noqa: B008 - it cannot be changed
    ) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        """Held while something is appended, and while what the log says is looked at; never while
        the disk is waited for. Notified when something is on disk."""
        self.log = Log(directory, lambda: [snapshot()], keep=keep)
        self.gather: Callable[[bool], None] = lambda _has_room: None
        """Called at the beginning of a turn, with `changed` held, to append what has come in; the
        argument is whether the disk has room for more than what frees it."""
        self.on_written: Callable[[], None] = lambda: None
        """Called in a turn once all is written, perhaps before it is synced."""
        self._directory = directory
        self._snapshot = snapshot
        self._schedule = schedule
        self._mark: MarkWriter | None = None
        self._reached = reached
        self._is_woken = False
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        """What is called once a record is on disk, in order."""
        self._sync_at: float | None = None
        """When what is written must be synced; None if all is, or nothing is written."""
        self._sync_s = 0.0
        """What a sync takes, about."""
        self._syncing = False
        """Whether the other thread waits for the disk."""
        self._synced: int | Exception | None = None
        """What it has to report."""
        self._free_until = 0.0
        self._has_room = True
        self._no_room = ""
        """Why nothing can be written now; empty if it can."""
        self._failure: OSError | None = None
        """Why nothing is written any more: after a failed sync, what is on disk is unknown, even
        if the next one succeeds."""
        self._thread: threading.Thread | None = None
        self._asked = threading.Semaphore(0)
        self._to_sync: tuple[int, int] | None = None
        self._snapshot_at = 0
        self.closing = False

    def append(self, kind: int, *parts: bytes | bytearray | memoryview) -> int:
        """Add a record, which somebody waits for; its address. The caller holds `changed`."""
        self._sync_at = 0.0
        return self.log.append(kind, *parts)

    def append_lazily(self, kind: int, *parts: bytes | bytearray | memoryview) -> int:
        """Add a record that is synced with the next one, or some milliseconds later."""
        self.sync_soon()
        return self.log.append(kind, *parts)

    def append_unsynced(self, kind: int, *parts: bytes | bytearray | memoryview) -> int:
        """Add a record that may be lost with the end of the machine, if no other follows."""
        return self.log.append(kind, *parts)

    def append_snapshot(self) -> None:
        """Add the present tables."""
        self._snapshot_at = self.log.next
        self.log.append(SNAPSHOT, self._snapshot())

    def sync_soon(self) -> None:
        """Let what is appended be synced some milliseconds later, though nobody waits for it."""
        if self._sync_at is None:
            self._sync_at = time.monotonic() + LAZY_S

    def when_durable(self, then: Callable[[], None]) -> None:
        """Call *then*, with `changed` held, once all that is appended is surely on disk."""
        self._waiting.append((self.log.next - 1, then))

    def once_durable(self, then: Callable[[], None]) -> None:
        """As `when_durable`, but at once if all is on disk; otherwise it asks for the sync."""
        if self.log.durable == self.log.next - 1:
            then()
            return
        self.sync_soon()
        self.when_durable(then)
        self.wake()

    def wake(self) -> None:
        """Ask for a turn; the caller holds `changed`."""
        if not self._is_woken:
            self._is_woken = True
            self._schedule()

    def turn(self) -> float | None:
        """Write what was appended; sync it if somebody waits for it.

        Returns:
            Seconds after which the next turn is to come, if none is asked for before; None if
            there is nothing to do.

        Raises:
            OSError: The log cannot be written, now or in a turn before: the gateway must end.
        """
        if self._failure is not None:
            raise self._failure
        try:
            return self._turn()
        except OSError as error:
            self._failure = error
            raise

    def _turn(self) -> float | None:
        with self.changed:
            self._end_background_sync()
            if self.log.next >= self._snapshot_at + _SNAPSHOT_EVERY:
                self.append_snapshot()
            self.gather(self._looks_roomy())
            self._is_woken = False  # what `gather` appends needs no other turn
            self._write()
        self.on_written()
        with self.changed:
            self._write()  # what was appended in between
            return self._sync_if_due()

    @property
    def is_stuck(self) -> bool:
        """Whether the disk has no room for what was appended."""
        return bool(self._no_room)

    def flush(self) -> None:
        """Write and sync all that was appended, in this thread, however long that takes.

        Raises:
            OSError: The disk has no room, or cannot be written.
        """
        with self.changed:
            if self._failure is not None:
                raise self._failure
            try:
                self.log.write()
                self.log.sync()
            except NoRoom:
                raise
            except OSError as error:
                self._failure = error
                raise
            self._settle()

    def close(self) -> None:
        """Write what is left, if there is room, and close the log."""
        self.closing = True
        if self._thread is not None:
            self._asked.release()
            self._thread.join()
        with self.changed:
            if self._failure is None:
                try:
                    self.gather(True)
                    self.log.write()
                    self.log.sync()
                except NoRoom:
                    pass
                else:
                    self._settle()
            self.log.close()
            if self._mark is not None:
                self._mark.close()

    def _looks_roomy(self) -> bool:
        """Whether the disk has more free space than what is reserved for publications."""
        now = time.monotonic()
        if now >= self._free_until and not self.closing:
            free, reserved = free_bytes(self._directory), reserved_bytes(self._directory)
            while free < reserved and self.log.kept.forget_oldest():
                free = free_bytes(self._directory)
            self._free_until, roomy = now + _LOOK_EVERY_S, free >= reserved
            if self._has_room and not roomy:
                mib = 1024**2
                log.warning(
                    "journal waits",
                    reason=f"{free / mib:,.1f} MiB of the disk are free, and "
                    f"{reserved / mib:,.1f} are reserved",
                    advice="it resumes when outputs are delivered, or when the disk has more space",
                )
            elif roomy and not self._has_room:
                log.info("journal resumed")
            self._has_room = roomy
        return self._has_room or self.closing

    def _write(self) -> None:
        if self.log.written == self.log.next - 1:
            return
        try:
            self.log.write()
        except NoRoom as error:
            if not self._no_room:
                log.warning("log waits", reason=f"the disk has no room: {error.strerror}")
            self._no_room = str(error)
        else:
            if self._no_room:
                self._no_room = ""
                log.info("log resumed")

    def _sync_if_due(self) -> float | None:
        """Sync if it is time; when to come again. `changed` is held, but not during a sync."""
        pause = None if self._has_room else _LOOK_EVERY_S
        if self._no_room:
            return _RETRY_S
        if self._syncing or self._sync_at is None:
            return pause
        left = self._sync_at - time.monotonic() if self._sync_at else 0.0
        if left > 0:
            return left if pause is None else min(left, pause)
        self._sync_at = None
        asked = self.log.begin_sync()
        if asked is None:
            return pause
        if self._sync_s > _SLOW_S:
            self._sync_in_background(asked)
            return pause
        file, number = asked
        self.changed.release()
        try:
            began = time.monotonic()
            os.fdatasync(file)
            took = time.monotonic() - began
        finally:
            self.changed.acquire()
        self._note_sync(number, took)
        return pause

    def _note_sync(self, number: int, took: float) -> None:
        self._sync_s += _WEIGHT * (took - self._sync_s)
        self.log.end_sync(number)
        self._settle()

    def _settle(self) -> None:
        """Tell those who wait for what is on disk now; `changed` is held."""
        durable = self.log.durable
        while self._waiting and self._waiting[0][0] <= durable:
            self._waiting.popleft()[1]()
        if self._mark is None:  # the one of before has been looked at
            self._mark = MarkWriter(self._directory)
        self._mark.note(Mark(self.log.name.hex(), durable, *self._reached()))
        self.changed.notify_all()

    # --- a slow disk ---------------------------------------------------------------------------

    def _sync_in_background(self, asked: tuple[int, int]) -> None:
        self._syncing, self._to_sync = True, asked
        if self._thread is None:
            self._thread = threading.Thread(target=self._wait_for_disk, name="log", daemon=True)
            self._thread.start()
        self._asked.release()

    def _wait_for_disk(self) -> None:
        while True:
            self._asked.acquire()
            if self._to_sync is None:  # it closes
                return
            (file, number), began = self._to_sync, time.monotonic()
            self._to_sync = None
            failure = None
            try:
                os.fdatasync(file)
            except OSError as error:
                failure = error
            with self.changed:
                took = time.monotonic() - began
                self._sync_s += _WEIGHT * (took - self._sync_s)
                self._synced = failure or number
                self.wake()

    def _end_background_sync(self) -> None:
        if isinstance(self._synced, Exception):
            raise self._synced
        if self._synced is not None:
            self._syncing = False
            number, self._synced = self._synced, None
            self.log.end_sync(number)
            self._settle()
