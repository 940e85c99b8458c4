"""A stand-in for an engine at a gateway: it gives chunks the outputs that a test wants."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.helpers import PATIENCE_S
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.entries import MESSAGES, block_in, messages_in
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.location import chunks_socket
from wallaroo.gateway.log.records import Record
from wallaroo.gateway.reading import Reading
from wallaroo.wire.channel import connect
from wallaroo.wire.chunk_messages import (
    BEGIN,
    DRIVER,
    HELLO,
    PUBLISHED,
    READER,
    TASK,
    CheckpointPosition,
    Hello,
    Report,
    news_in,
    pack_json,
    pack_report,
    task_in,
)
from wallaroo.wire.frame_socket import FrameSocket
from wallaroo.wire.records import Block, Outputs, Tally

RUN = "run"
"""Name of its query."""
_AT_ONCE = {(0, 0): 0}
"""Asks for a tick, which is the next chunk if no messages come."""


class StandIn:
    """An engine without user code, which outlives the gateway at *location*.

    Like an engine, it gives a chunk that it is handed again the same outputs.

    Args:
        location: Location of the gateway's internal API.
        ticks: Whether ticks are chunks where no messages are; they count as backlog.
    """

    def __init__(self, location: str, *, ticks: bool = True) -> None:
        self._location, self._ticks = location, ticks
        self._made: list[Report] = []
        """By chunk, from number 1 on."""
        self._frames: tuple[FrameSocket, FrameSocket] | None = None

    @classmethod
    @contextlib.contextmanager
    def at(cls, directory: str) -> Iterator[StandIn]:
        """One at the gateway whose socket is in *directory*; it leaves at the end."""
        with contextlib.closing(cls(f"unix:{directory}/gateway.sock")) as made:
            yield made

    def publish(
        self,
        *outputs: Outputs,
        tally: Tally | None = None,
        changes: bytes = b"",
        patient: bool = True,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """Let the next chunk have these results, and wait until it is published.

        *before* is called just before it is reported.

        Raises:
            RuntimeFailure: The gateway has gone before it was published, and *patient* is not set.
        """
        tally = tally or Tally()
        if self._ticks:
            tally.due |= _AT_ONCE
        number = len(self._made) + 1
        self._made.append(Report(number, outputs, tally, changes=changes))
        while True:
            try:
                return self._publish(number, before)
            except (OSError, EOFError, RuntimeFailure) as error:
                self.close()
                if not patient:
                    msg = "the gateway has gone"
                    raise RuntimeFailure(msg) from error

    def close(self) -> None:
        """Leave the gateway."""
        for frames in self._frames or ():
            frames.close()
        self._frames = None

    def _publish(self, number: int, before: Callable[[], None]) -> None:
        reader, driver = self._connected()
        while (task := self._task(reader, before)) < number:
            pass
        assert task == number, "it was published already"
        while self._published(driver) < number:
            pass

    def _published(self, driver: FrameSocket) -> int:
        """Wait for news of publications; the number of the last chunk that is on disk."""
        while (frame := driver.receive()) is not None:
            if frame[:1] == PUBLISHED:
                return max((one.last for one in news_in(frame).publications), default=0)
        raise EOFError

    def _task(self, reader: FrameSocket, before: Callable[[], None]) -> int:
        """Report the next chunk; returns its number."""
        while (frame := reader.receive()) is not None:
            if frame[:1] == TASK:
                number = task_in(frame).number
                if number == len(self._made):
                    before()
                reader.send(*pack_report(self._made[number - 1]))
                return number
            self._begin(reader)  # an epoch has ended
        raise EOFError

    def _connected(self) -> tuple[FrameSocket, FrameSocket]:
        if self._frames is None:
            claim = GatewayClient(self._location, patience_s=PATIENCE_S).claim("stand-in")
            path = chunks_socket(self._location)
            with contextlib.ExitStack() as opened:
                frames = []
                for role in (DRIVER, READER):
                    frames.append(connect(str(path)))
                    opened.callback(frames[-1].close)
                    frames[-1].send(pack_json(HELLO, Hello(claim, 1, role, 0)))
                opened.pop_all()
            driver, reader = frames
            self._frames = reader, driver
            self._begin(reader)
        return self._frames

    def _begin(self, reader: FrameSocket) -> None:
        """Begin an epoch before all chunks, so that the gateway forgets none."""
        reader.send(pack_json(BEGIN, [RUN, self._ticks, *CheckpointPosition()]))


def journal_of(directory: Path, start: int = 0) -> list[Block]:
    """The messages from *start* on in the log of a *directory*, whose gateway may run."""
    blocks: list[Block] = []

    def note(record: Record) -> None:
        if record.kind == MESSAGES and messages_in(record.payload).first >= start:
            blocks.append(block_in(record.payload))

    Reading(directory / LOG, note)
    return [block for block in blocks if block.source >= 0]
