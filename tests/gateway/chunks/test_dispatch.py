from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, cast

import pytest

from tests.gateway.log.simulated_disk import SimulatedDisk
from wallaroo.gateway import writer
from wallaroo.gateway.chunks.dispatch import ChunkRun
from wallaroo.gateway.chunks.pace import Pace, Resumes
from wallaroo.gateway.chunks.reports import PublicationReports
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.gateway.store import Store
from wallaroo.wire.chunk_messages import CHANGES, DONE, RECORD, Hello, pack_json
from wallaroo.wire.records import Tally


class _Peer:
    """In the place of a `Peer`."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, *parts: bytes) -> None:
        self.sent.append(b"".join(parts))

    async def drained(self) -> bool:
        return True

    def abort(self) -> None:
        pass


def test_changes_that_a_full_disk_has_no_room_for_are_sent_once_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimulatedDisk()
    (tmp_path / "log").mkdir()
    monkeypatch.setattr(writer, "Log", lambda *arguments: Log(*arguments, disk=disk))
    monkeypatch.setattr(os, "fdatasync", disk.fdatasync)

    async def run() -> list[bytes]:
        failures: list[Exception] = []
        store = Store(tmp_path, schedule=lambda: None)
        of_query = ChunkRun(
            Hello(1, 1, 0, 1),
            store,
            cast("Any", None),
            Resumes(),
            Pace(),
            PublicationReports(None),
            failures.append,
        )
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
