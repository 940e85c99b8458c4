"""All of it: senders, a gateway, a query and a receiver, and what fails, from one seed."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import structlog

from tests.gateway.log.simulated_disk import Crash
from tests.gateway.simulation.clock import VirtualLoop
from tests.gateway.simulation.disk import SlowDisk
from tests.gateway.simulation.ends import SINK, Receiver, Sender
from tests.gateway.simulation.query import Checkpoint, Query
from wallaroo.gateway import damage, store, writer
from wallaroo.gateway.chunks.pace import Pace
from wallaroo.gateway.chunks.server import ChunkServer
from wallaroo.gateway.log import log, recovery
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.records import NoRoom
from wallaroo.gateway.log.segments import segment_file
from wallaroo.gateway.marks import Mark
from wallaroo.gateway.store import Store
from wallaroo.gateway.writer import LogWriter
from wallaroo.wire.chunk_messages import CheckpointPosition

_FAULTS_S = 0.05, 0.1, 0.3
"""How long things fail."""
_FAULTS_PER_S = 25
_MESSAGES_PER_S = 30, 130
"""How many each sender sends, for each second in which things fail."""
_PATIENCE_S = 600.0
_KEYS = 6
_DIRECTORY = Path("/simulated")
_SILENT = structlog.wrap_logger(
    None, wrapper_class=structlog.make_filtering_bound_logger("critical")
)
_segment_file = functools.cache(segment_file)


class _Listener:
    """In the place of a `PeerListener`."""

    async def start(self, _host: object) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class _Leases:
    """In the place of `Leases`: there is one driver."""

    def problem(self, _claim: int) -> None:
        """None."""


class _Letters:
    """In the place of a `DeadLetterStore`: no message fails, so it is given none."""

    def __init__(self, *_: object) -> None:
        pass

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """Nothing."""
        return contextlib.nullcontext()

    def begin(self, _log: str, _last: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class _Marks:
    """In the place of a `MarkWriter`, and of the file."""

    def __init__(self) -> None:
        self.now: Mark | None = None
        self.synced: Mark | None = None
        self._is_synced = False

    def open(self, _log: Path) -> _Marks:
        """See `MarkWriter`."""
        self._is_synced = False
        return self

    def read(self, _log: Path) -> Mark | None:
        """See `read_mark`."""
        return self.now

    def note(self, mark: Mark) -> None:
        """See `MarkWriter.note`."""
        self.now = mark
        if not self._is_synced:
            self._is_synced, self.synced = True, mark

    def close(self) -> None:
        """Do nothing."""


class World:
    """A run of everything.

    Args:
        seed: Decides everything.
        patch: Puts the simulated disk in the place of the system's.
        windows: Counts what has happened.
    """

    def __init__(self, seed: int, patch: pytest.MonkeyPatch, windows: Counter[str]) -> None:
        rng = self._rng = random.Random(seed)
        self._windows = windows
        self.loop = VirtualLoop(self._on_error)
        self._error: BaseException | None = None
        self.disk = SlowDisk()
        self._is_slow = rng.random() < 0.4
        self._partitions, self.levels = rng.choice((1, 2, 3)), rng.choice((1, 2))
        self._pace = Pace(
            chunks=rng.choice((1, 2, 4)),
            chunk_bytes=rng.choice((60, 200, 10_000)),
            waits_for_disk=rng.random() < 0.2,
            quiet_s=0.1,
            epoch_first_s=rng.choice((0.0, 0.5)),
            epoch_least_s=rng.choice((0.05, 0.5)),
            epoch_most_s=rng.choice((0.1, 1.0)),
        )
        self._checkpoint = Checkpoint(CheckpointPosition(), [{}] * self._partitions)
        self._store: Store | None = None
        self._server: ChunkServer | None = None
        self._query: Query | None = None
        self._attempt = 0
        self._turn: Any = None
        self._delivered: int | None = None
        """What was delivered at the last turn, if the disk was full then."""
        self._marks = _Marks()
        self._faults_s = rng.choice(_FAULTS_S)
        self._senders = [
            Sender(
                self.loop, rng, stream, int(self._faults_s * rng.uniform(*_MESSAGES_PER_S)), _KEYS
            )
            for stream in range(2)
        ]
        self._receiver = Receiver(self.loop, rng)
        self._patch(patch)

    def run(self) -> None:
        """Run it, and check all outputs."""
        self.loop.call_soon(self._start_gateway)
        self.loop.call_later(0.01, self._supervise)
        self._plan_fault()
        self.loop.call_later(self._faults_s, self._look)
        self.loop.run()
        self._drop()
        if self._error is not None:
            raise self._error
        due = sum((sender.counts() for sender in self._senders), Counter[int]())
        assert self._receiver.check(self.levels) == due
        self._windows["output repeated"] += self._receiver.repeated > 0

    # --- the gateway -----------------------------------------------------------------------------

    def _patch(self, patch: pytest.MonkeyPatch) -> None:
        self.loop.take_over(patch)
        segment = self._rng.choice((700, 1_500, 4_000))
        patch.setattr(
            writer,
            "Log",
            lambda *arguments, **options: Log(
                *arguments, segment_bytes=segment, disk=self.disk, **options
            ),
        )
        for module in (log, recovery):
            patch.setattr(module, "segment_file", _segment_file)
        patch.setattr(asyncio, "get_running_loop", lambda: self.loop)
        patch.setattr(os, "urandom", self._rng.randbytes)
        patch.setattr(os, "fdatasync", self._fdatasync)
        patch.setattr(store, "DeadLetterStore", _Letters)
        patch.setattr(writer, "MarkWriter", self._marks.open)
        patch.setattr(damage, "read_mark", self._marks.read)
        reserved = self._rng.choice((0, 1_000))
        patch.setattr(writer, "free_bytes", lambda _directory: self.disk.free())
        patch.setattr(writer, "reserved_bytes", lambda _directory: reserved)
        patch.setattr(writer, "_LOOK_EVERY_S", 0.02)
        patch.setattr(writer, "_RETRY_S", 0.05)
        patch.setattr(writer, "log", _SILENT)
        patch.setattr(
            LogWriter,
            "_sync_in_background",
            lambda writer, asked: self._begin_sync(writer, *asked),
        )

    def _fdatasync(self, file: int) -> None:
        self.disk.fdatasync(file)

    def _begin_sync(self, writer: LogWriter, file: int, number: int) -> None:
        """See `LogWriter._sync_in_background`."""
        writer._syncing = True
        disk = self.disk
        begun = disk.begin_sync(file)

        def ended() -> None:
            if self._store is None or self._store.writer is not writer:
                self._windows["crash during a sync"] += 1
                return
            disk.end_sync(begun)
            with writer.changed:
                writer._synced = number
                writer.wake()

        self.loop.call_later(self._rng.expovariate(1 / 0.01), ended)

    def _start_gateway(self) -> None:
        if self._store is not None:
            return
        try:
            store = Store(
                _DIRECTORY,
                "application",
                schedule=self._ask,
                sources=("source",),
                clock=self.loop.wall_ns,
                uptime=self.loop.uptime,
            )
        except Crash:
            self._windows["crash during recovery"] += 1
            self._fail(power=True)
            return
        except NoRoom:
            self._windows["no room at a start"] += 1
            self._fail(power=False)
            return
        self._store = store
        if self._is_slow:
            store.writer._sync_s = 1.0
        self._server = ChunkServer(
            cast("Any", _Listener()),
            store,
            cast("Any", _Leases()),
            cast("Any", None),
            self._pace,
            self._failed,
        )
        with contextlib.suppress(StopIteration):
            self._server.start().send(None)
        store.journal.on_accepted = self._accepted
        for sender in self._senders:
            sender.connect(store)
        self._receiver.connect(store)
        self._ask()

    def _accepted(self, positions: Any) -> None:
        for sender in self._senders:
            sender.accepted(positions)

    def _ask(self) -> None:
        self.loop.call_soon(self._take_turn, self._store)

    def _take_turn(self, store: Store | None) -> None:
        if store is None or store is not self._store:
            return
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        again_s = store.turn()
        self._note_room(store)
        if again_s is not None and self._store is store:
            self._turn = self.loop.call_later(again_s, self._take_turn, store)

    def _note_room(self, store: Store) -> None:
        is_stuck, has_room = store.writer.is_stuck, store.writer._has_room
        self._windows["log waited"] += is_stuck
        self._windows["intake waited"] += not has_room
        before, self._delivered = self._delivered, None
        if is_stuck or not has_room:
            self._delivered = store.outbox.queues.delivered_to(SINK)
            is_less = before is not None and before < self._delivered
            self._windows["delivered from a full disk"] += is_less

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, Crash):
            self._error = self._error or error
            self.loop.stop()
        else:
            self._fail(power=True)

    def _on_error(self, error: Exception) -> None:
        if isinstance(error, Crash):
            self._windows[f"crash in {self.disk.crashed_at}"] += 1
            self._fail(power=self._rng.random() < 0.7)
        else:
            self._error = self._error or error
            self.loop.stop()

    def _drop(self) -> None:
        """The gateway's process is gone."""
        self._store = None
        for sender in self._senders:
            sender.lose()
        self._receiver.lose()
        if self._server is not None:
            self._server.close()
            self._server = None
            if self._query is not None:
                self._query.kill()  # also where nothing of it has introduced itself yet

    def _fail(self, *, power: bool) -> None:
        """The gateway ends, or its machine does."""
        store = self._store
        if store is not None:
            written = store.writer.log.written
            self._windows["crash before a write"] += written < store.writer.log.next - 1
            self._windows["crash before a sync"] += store.writer.log.durable < written
        self._drop()
        self._windows["write cut short"] += self.disk.calls["cut short"]
        capacity = self.disk.capacity
        if power:
            self.disk = self.disk.after_crash(self._rng)
            if self._rng.random() < 0.5:
                self._marks.now = self._marks.synced
        else:
            self.disk = self.disk.after_kill()
        self.disk.capacity = capacity
        self._windows["power failure" if power else "kill"] += 1
        if self._rng.random() < 0.4:
            self.disk.crash_in = self._rng.randrange(8)  # in recovery, or soon after it
        self.loop.call_later(self._rng.expovariate(50), self._start_gateway)

    # --- the query -------------------------------------------------------------------------------

    def _supervise(self) -> None:
        """Start the query when it is not running."""
        self.loop.call_later(self._rng.uniform(0.01, 0.1), self._supervise)
        if self._query is not None and not self._query.is_alive:
            self._windows["changes applied"] += self._query.applied > 0
            self._windows.update(self._query.windows)
            self._query = None
        if self._query is None and self._server is not None:
            self._attempt += 1
            self._query = Query(
                self.loop,
                self._rng,
                self._server,
                self._checkpoint,
                self._attempt,
                self._partitions,
                self.levels,
                self._commit,
            )

    def _commit(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    # --- what fails ------------------------------------------------------------------------------

    def _plan_fault(self) -> None:
        until = self._rng.expovariate(_FAULTS_PER_S)
        if self.loop.time() + until < 1_000 + self._faults_s:
            self.loop.call_later(until, self._inject)

    def _inject(self) -> None:
        self._plan_fault()
        fault: Callable[[], None] = self._rng.choice(
            (
                functools.partial(self._fail, power=False),
                functools.partial(self._fail, power=True),
                self._kill_query,
                self._crash_soon,
                self._crash_soon,
                self._fill_disk,
            )
        )
        if self._store is not None:
            fault()

    def _kill_query(self) -> None:
        if self._query is not None:
            self._windows["query killed"] += 1
            self._query.kill()

    def _crash_soon(self) -> None:
        self.disk.crash_in = self._rng.randrange(20)

    def _fill_disk(self) -> None:
        self.disk.capacity = self.disk.used() + self._rng.randrange(1_000)
        self.loop.call_later(self._rng.expovariate(10), self._free_disk)

    def _free_disk(self) -> None:
        self.disk.capacity = None

    def _look(self) -> None:
        """End if all is done."""
        self.disk.crash_in = self.disk.capacity = None
        store = self._store
        if (
            store is not None
            and all(sender.is_done for sender in self._senders)
            and store.journal.backlog == 0
            and store.outbox.undelivered == 0
        ):
            first = segment_file(Path(), 1).name
            self._windows["segments let go"] += first not in self.disk.names_seen
            self.loop.stop()
            return
        if self.loop.now > 1_000 + _PATIENCE_S:
            progress = store and (store.journal.backlog, store.outbox.undelivered)
            sent = [(sender.sent, sender.acknowledged) for sender in self._senders]
            self._error = AssertionError(f"it stands still: {sent} {progress}")
            self.loop.stop()
            return
        self.loop.call_later(0.05, self._look)
