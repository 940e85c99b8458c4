"""Look-ups that a partition answers between two chunks, and its wait for whatever comes next."""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Generator

from wallaroo.dataflow.buckets import Bucket
from wallaroo.dataflow.look_ups import Searches
from wallaroo.dataflow.program import Program
from wallaroo.wire.frame_socket import FrameSocket
from wallaroo.wire.look_ups import ASK, PAGE_BYTES, LookUp, Page, ask_in, pack_answer

_SLICE_S, _PAUSE_MS = 0.001, 1
"""Time for look-ups between two chunks, and the pause after it if there is no chunk."""


class LookUps:
    """Answers the gateway's look-ups.

    Args:
        program: The application.
        bucket: The entities.
        gateway: Asks, and brings chunks that are direct.
        java: Brings all others.
    """

    def __init__(
        self, program: Program, bucket: Bucket, gateway: FrameSocket, java: FrameSocket
    ) -> None:
        self._levels = program.levels
        self._gateway, self._java = gateway, java
        self._searches = Searches(program, bucket, self._chunk_of)
        self._last: dict[int, int] = {}
        """By level: the last chunk that has run."""
        self._begun = False
        """Whether all that is published is in the entities."""
        self._direct = deque[bytes]()
        """Frames of the gateway that are for the partition."""
        self._asked: deque[tuple[int, Generator[None, None, list[Page]]]] = deque()
        """The look-ups that are not answered yet, by the gateway's number."""
        self._poll = select.poll()
        for connection in (gateway, java):
            self._poll.register(connection.fileno(), select.POLLIN)

    def ran(self, chunk: int, level: int) -> None:
        """Note that a level of a chunk has run."""
        self._last[level] = chunk

    def next_frame(self) -> bytes | None:
        """The next frame for the partition, and answers to look-ups until it comes.

        Returns:
            The frame, of the gateway or of Java; None if Java is gone.

        Raises:
            EOFError: The gateway is gone.
        """
        java, gateway = self._java.fileno(), self._gateway.fileno()
        while self._begun and not self._java.has_frame():
            if self._direct:
                return self._direct.popleft()
            # what takes long leaves the processor to others in turn
            ready = {
                descriptor for descriptor, _ in self._poll.poll(_PAUSE_MS if self._asked else None)
            }
            if gateway in ready:
                self._take_arrived()
            self._answer_some()
            if java in ready:
                break
        return self._java.receive()

    def take(self, frame: bytes) -> None:
        """Take a frame of the gateway."""
        if frame[:1] != ASK:
            self._direct.append(frame)
            return
        number, asked = ask_in(frame)
        self._asked.append((number, self._pages(asked)))

    def begin(self) -> None:
        """Answer from now on: all that is published is in the entities."""
        self._begun = True
        self._take_arrived()  # also questions of which `poll` does not know

    def _take_arrived(self) -> None:
        for frame in self._gateway.arrived():
            self.take(frame)

    def _answer_some(self) -> None:
        until = time.perf_counter() + _SLICE_S
        while self._asked and time.perf_counter() < until:
            number, pages = self._asked[0]
            try:
                next(pages)
            except StopIteration as end:
                self._gateway.send(*pack_answer(number, end.value))
                self._asked.popleft()

    def _pages(self, asked: list[LookUp]) -> Generator[None, None, list[Page]]:
        """Search as `Searches` does; those of the last look-ups are missing if there is much."""
        pages, size = list[Page](), 0
        for one in asked:
            page = yield from self._searches.search(one)
            yield
            pages.append(page)
            size += sum(len(found.text) for found in page.found)
            if size > PAGE_BYTES:
                break
        return pages

    def _chunk_of(self, partition: int) -> int:
        return self._last.get(self._levels.level(partition), 0)
