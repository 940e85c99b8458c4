"""The last data of open connections, accepted during a stop within limits of bytes and time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

DRAIN_S = 5.0
"""Seconds that a stop spends on what senders had delivered to this machine."""
DRAIN_BYTES = 512 * 1024**2
"""Bytes that it takes of all connections: they are in memory until the journal has them."""
CONNECTION_BYTES = 16 * 1024**2
"""Bytes that it takes of one connection: more than both kernels usually hold of it. A sender that
never pauses has sent the rest since."""


class Drain:
    """Reads connections at a stop, one after the other.

    Args:
        clock: Returns the time, in seconds.
        seconds: Time for all connections.
        most: Bytes of all connections.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        seconds: float = DRAIN_S,
        most: int = DRAIN_BYTES,
    ) -> None:
        self._clock = clock
        self._until = clock() + seconds
        self._left = most

    @property
    def is_over(self) -> bool:
        """Whether the bytes or the time of the stop are used up."""
        return self._left <= 0 or self._clock() >= self._until

    def read(self, file: int, room: Callable[[], memoryview]) -> Iterator[int]:
        """Read what has arrived on the socket *file*, which does not block.

        Args:
            file: The socket.
            room: Returns where the next bytes go.

        Yields:
            Bytes that a read has put into what *room* returned.
        """
        left = CONNECTION_BYTES
        with contextlib.suppress(OSError):  # there are no more
            while left > 0 and not self.is_over and (count := os.readv(file, [room()])):
                left -= count
                self._left -= count
                yield count
