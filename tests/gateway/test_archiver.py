"""The process of the archive, as a gateway keeps it running."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from tests.gateway.log.test_archive import Written
from tests.helpers import PATIENCE_S
from wallaroo.gateway import archiver as archiver_module
from wallaroo.gateway.archiver import Archiver


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    """A log of which some segments wait for the archive."""
    made = Written(tmp_path)
    made.append(6)
    yield made
    made.log.close()


async def until(is_so: Callable[[], bool]) -> None:
    """Let the loop run until something is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.01)


def test_it_archives_tells_what_is_wrong_and_is_started_again(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver_module, "_RESTART_S", 0.01)

    async def run() -> None:
        archiver = Archiver(written.directory, written.archive)
        archiver.start()
        await until(lambda: not written.waiting())
        assert archiver._process is not None
        first = archiver._process.pid
        archiver._process.kill()
        await until(lambda: archiver._process is not None and archiver._process.pid != first)
        written.append(3)
        await until(lambda: not written.waiting())
        process = archiver._process
        archiver.stop()
        assert process.poll() is not None

    with structlog.testing.capture_logs() as told:
        asyncio.run(run())
    assert [(one["event"], one.get("reason")) for one in told] == [
        ("archive waits", "its process has ended")
    ]
    assert written.numbers()[0] == 1


def test_it_ends_with_the_gateway_and_says_that_the_archive_is_away(written: Written) -> None:
    written.archive.rmdir()

    async def run() -> None:
        archiver = Archiver(written.directory, written.archive)
        archiver.start()
        await until(lambda: bool(told))
        process = archiver._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()  # as the end of the gateway does
        await asyncio.to_thread(process.wait, 60)
        archiver.stop()

    with structlog.testing.capture_logs() as told:
        asyncio.run(run())
    waits, *_ = told
    assert waits["event"] == "archive waits"
    assert waits["reason"] == f"{written.archive} is not there"
    assert written.waiting()


def test_a_stop_leaves_nothing_half_copied(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver_module, "_END_S", 60.0)
    first, *_ = written.waiting()
    os.truncate(first, 1 << 38)  # it takes minutes to read

    async def run() -> None:
        archiver = Archiver(written.directory, written.archive)
        archiver.start()
        await until(lambda: bool(list(written.archive.iterdir())))
        archiver.stop()

    asyncio.run(run())
    assert list(written.archive.iterdir()) == []
    assert first in written.waiting()


def test_a_process_that_cannot_be_started_is_tried_again(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver_module, "_RESTART_S", 0.01)

    async def run() -> None:
        archiver = Archiver(written.directory, written.archive)
        with monkeypatch.context() as patched:
            patched.setattr("sys.executable", str(tmp_path / "none"))
            archiver.start()
        await until(lambda: not written.waiting())
        archiver.stop()

    with structlog.testing.capture_logs() as told:
        asyncio.run(run())
    assert told[0]["reason"].startswith("its process cannot be started: [Errno 2]")
