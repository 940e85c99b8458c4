from __future__ import annotations

import asyncio
import os
from collections.abc import MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from tests.gateway.log.simulated_disk import SimulatedDisk
from wallaroo.gateway import writer
from wallaroo.gateway.chunks import dispatch, epoch
from wallaroo.gateway.chunks.dispatch import ChunkRun
from wallaroo.gateway.chunks.pace import Pace, Resumes
from wallaroo.gateway.chunks.reports import PublicationReports
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.gateway.store import Store
from wallaroo.wire.chunk_messages import (
    BEGIN,
    CHANGES,
    DONE,
    DRIVER,
    END,
    FINISH,
    HOLD,
    READER,
    READY,
    RECORD,
    SAVABLE,
    TASK,
    CheckpointPosition,
    Hello,
    Report,
    next_in,
    pack_json,
    pack_report,
    task_in,
)
from wallaroo.wire.records import Packed, Tally


class _Peer:
    """In the place of a `Peer`."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, *parts: bytes) -> None:
        self.sent.append(b"".join(parts))

    async def drained(self) -> bool:
        return True

    def is_ready(self) -> bool:
        return True

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedDisk:
    disk = SimulatedDisk()
    (tmp_path / "log").mkdir()
    monkeypatch.setattr(
        writer, "Log", lambda *arguments, **options: Log(*arguments, disk=disk, **options)
    )
    monkeypatch.setattr(os, "fdatasync", disk.fdatasync)
    return disk


def run_of(store: Store, failures: list[Exception], pace: Pace | None = None) -> ChunkRun:
    """A run of one partition."""
    reports = PublicationReports(None)
    evidence = cast("Any", None)
    return ChunkRun(
        Hello(1, 1, 0, 1), store, evidence, Resumes(), pace or Pace(), reports, failures.append
    )


def test_changes_that_a_full_disk_has_no_room_for_are_sent_once_it_has(
    tmp_path: Path, disk: SimulatedDisk
) -> None:
    async def run() -> list[bytes]:
        failures: list[Exception] = []
        store = Store(tmp_path, schedule=lambda: None)
        of_query = run_of(store, failures)
        disk.capacity = 0
        store.outbox.publish("query", [FinishedChunk(1, 0, [], Tally(), [(0, b"changes")])])
        store.turn()
        peer = _Peer()
        of_query.join(0, cast("Any", peer))
        of_query.receive(0, pack_json(CHANGES, ["query", 0]))
        await asyncio.sleep(0)
        assert (peer.sent, failures) == ([], [])
        disk.capacity = None
        store.turn()
        await asyncio.sleep(0)
        of_query.close()
        store.close()
        return peer.sent

    assert asyncio.run(run()) == [RECORD + b"changes", DONE]


def test_spark_keeps_nothing_of_a_run_before_that_is_not_on_disk(
    tmp_path: Path, disk: SimulatedDisk
) -> None:
    assert disk.capacity is None

    async def run() -> list[bytes]:
        failures: list[Exception] = []
        store = Store(tmp_path, schedule=lambda: None)
        of_query = run_of(store, failures, Pace(epoch_first_s=0.0))
        store.outbox.publish("query", [FinishedChunk(1, 0, [], Tally(), [(0, b"changes")])])
        reader = _Peer()
        for role in (READER, DRIVER, 0):
            of_query.join(role, cast("Any", reader if role == READER else _Peer()))
        of_query.receive(READER, pack_json(BEGIN, ["query", False, *CheckpointPosition()]))
        of_query.step()
        assert (reader.sent, failures) == ([], [])
        store.turn()
        of_query.step()
        of_query.close()
        store.close()
        return reader.sent

    (end,) = asyncio.run(run())
    assert CheckpointPosition.from_json(end.removeprefix(END)).chunk == 1


def test_chunks_wait_for_more_messages_while_every_sink_takes_long(tmp_path: Path) -> None:
    async def run() -> list[int]:
        store = Store(tmp_path, schedule=lambda: None, sinks=["slow", "fast"])
        of_query = run_of(store, [], Pace(gap_s=0.0, full_bytes=1_000))
        reader, sent = _Peer(), list[int]()
        for role in (READER, DRIVER, 0):
            of_query.join(role, cast("Any", reader if role == READER else _Peer()))
        of_query.receive(READER, pack_json(BEGIN, ["query", False, *CheckpointPosition()]))
        for took_s, data in (
            (None, b"at once, as nothing was written before"),
            (3_600.0, b"waits"),
            (3_600.0, bytes(1_000)),  # with the one before, as that is much
            (3_600.0, b"waits again"),
            (0.0, b"at once, as there is a sink that waits for nothing"),
        ):
            if took_s is not None:
                store.outbox.delivery_times.note(0 if took_s else 1, took_s)
            store.journal.submit(0, 1, len(data).to_bytes(4, "big") + data)
            store.turn()
            of_query.step()
            sent.append(len(reader.sent))
        of_query.close()
        store.close()
        return sent

    assert asyncio.run(run()) == [1, 1, 2, 2, 3]


def test_an_epoch_whose_end_takes_long_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "_LOOK_S", 0.01)
    monkeypatch.setattr(epoch, "LONG_S", 0.05)

    async def run() -> list[MutableMapping[str, Any]]:
        store = Store(tmp_path, schedule=lambda: None)
        of_query = run_of(store, [], Pace(epoch_first_s=0.0))
        for role in (READER, DRIVER, 0):
            of_query.join(role, cast("Any", _Peer()))
        with capture_logs() as told:
            for chunk in range(2):
                begin = pack_json(BEGIN, ["query", False, 0, chunk, *CheckpointPosition()[2:]])
                of_query.receive(READER, begin)
                store.turn()
                await asyncio.sleep(0.2)  # the first ends at once, and Spark takes its time
        of_query.close()
        store.close()
        return [event for event in told if event["event"] == "epoch takes long to end"]

    (event,) = asyncio.run(run())
    assert event["log_level"] == "warning"
    assert "object store is slow or away" in event["reason"]


class _Between:
    """A run of one partition, of which the gateway's peers keep what they are sent."""

    def __init__(self, directory: Path, pace: Pace) -> None:
        self.store = Store(directory, schedule=lambda: None)
        self.run = run_of(self.store, [], pace)
        self.store.on_gather = self.run.publish
        self.reader, self.driver, self.partition = _Peer(), _Peer(), _Peer()
        for role, peer in ((READER, self.reader), (DRIVER, self.driver), (0, self.partition)):
            self.run.join(role, cast("Any", peer))

    async def begin(self, chunk: int) -> None:
        """Let an epoch begin, to whose beginning each chunk has had one message."""
        place = CheckpointPosition(chunk, chunk, self.store.journal.opening)
        self.run.receive(READER, pack_json(BEGIN, ["query", False, *place]))
        await self._settle()

    def submit(self, message: bytes = b"message") -> bytes:
        """Submit a message; what the first stage was sent last."""
        self.store.journal.submit(0, 1, message)
        self.step()
        return self.reader.sent[-1]

    async def process(self, frame: bytes, changes: bytes = b"") -> bytes:
        """Report the chunk in a *frame*; what the first stage was sent last."""
        task, packed = task_in(frame), Packed(1, 0, b"packed")
        made = {"sent": [packed]} if task.direct else {"partitions": {1: [0]}}
        self.report(READER, Report(task.number, [], Tally(), **made))
        self.report(0, Report(task.number, [], Tally(), level=1, changes=changes))
        self.step()
        await self._settle()
        return self.reader.sent[-1]

    async def _settle(self) -> None:
        """Wait until all is on disk, whatever waits for that."""
        log = self.store.writer.log
        while log.durable < log.next - 1:
            await asyncio.sleep(0.001)
            self.step()

    def report(self, role: int, report: Report) -> None:
        self.run.receive(role, b"".join(pack_report(report)))

    def step(self) -> None:
        self.store.turn()
        self.run.step()

    def close(self) -> None:
        self.run.close()
        self.store.close()


_SHORT = Pace(epoch_first_s=60.0, epoch_most_s=0.0, gap_s=0.0)
"""Each epoch but the first ends with its first chunk."""


def test_chunks_are_direct_until_the_shuffle_of_the_next_epoch_runs(tmp_path: Path) -> None:
    async def run() -> None:
        between = _Between(tmp_path, replace(_SHORT, epoch_first_s=0.0))
        await between.begin(0)
        assert between.reader.sent == between.partition.sent
        assert between.partition.sent[-1][:1] == END
        first = between.submit()
        assert task_in(first).direct
        await between.process(first)
        assert next_in(between.partition.sent[-1]).sent == {0: [b"packed"]}
        await between.begin(0)
        second = between.submit()
        assert task_in(second).direct  # the shuffle does not reach the partition
        between.run.receive(0, pack_json(READY, 0))
        assert between.submit() == second  # the next one would overtake it
        between.run.receive(DRIVER, SAVABLE)
        assert (await between.process(second))[:1] == END
        between.close()

    asyncio.run(run())


async def _in_second_epoch(directory: Path, pace: Pace) -> _Between:
    """A run whose first epoch, which ends in any case, is over."""
    between = _Between(directory, replace(pace, epoch_first_s=0.0, gap_s=0.0))
    await between.begin(0)
    assert between.reader.sent.pop()[:1] == END
    await between.begin(0)
    between.run.receive(0, pack_json(READY, 0))
    return between


def test_an_epoch_goes_on_until_its_changes_can_be_saved(tmp_path: Path) -> None:
    async def run() -> None:
        between = await _in_second_epoch(tmp_path, Pace(epoch_most_s=0.0))
        for _ in range(3):  # the driver has not answered yet
            chunk = between.submit()
            assert chunk[:1] == TASK
            await between.process(chunk)
        assert between.driver.sent.count(SAVABLE) == 1
        between.run.receive(DRIVER, SAVABLE)
        assert between.reader.sent[-1][:1] == END
        between.close()

    asyncio.run(run())


def test_an_epoch_that_has_changed_much_ends_even_if_it_cannot_be_saved(tmp_path: Path) -> None:
    async def run() -> None:
        between = await _in_second_epoch(tmp_path, Pace(published_bytes=0))
        await between.process(between.submit(), changes=b"changes")
        assert between.reader.sent[-1][:1] == END
        assert SAVABLE not in between.driver.sent
        between.close()

    asyncio.run(run())


def test_no_chunk_follows_an_end_that_the_driver_asked_for(tmp_path: Path) -> None:
    async def run() -> None:
        between = _Between(tmp_path, _SHORT)
        await between.begin(0)
        await between.process(between.submit())
        between.run.receive(DRIVER, pack_json(FINISH, 1))  # it may be about to stop
        assert between.submit()[:1] == END
        await between.begin(1)
        assert not task_in(between.reader.sent[-1]).direct
        between.close()

    asyncio.run(run())


def test_direct_chunks_count_once_for_the_epoch_that_follows(tmp_path: Path) -> None:
    async def run() -> None:
        between = _Between(tmp_path, Pace(epoch_first_s=0.0, gap_s=0.0, journal_bytes=100))
        await between.begin(0)
        await between.process(direct := between.submit())
        between.run.receive(DRIVER, HOLD)
        await between.begin(0)
        between.run.receive(0, pack_json(READY, 0))
        assert between.submit(bytes(200)) == direct  # no end, which would free too little
        between.close()

    asyncio.run(run())
