"""Connections that deliver in order, after a time that chance decides, or break."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.gateway.simulation.clock import VirtualLoop


class Wire:
    """One direction of a connection.

    Args:
        loop: The clock.
        rng: Decides how long things take.
    """

    def __init__(self, loop: VirtualLoop, rng: random.Random) -> None:
        self._loop, self._rng = loop, rng
        self._last = 0.0
        self._delay_s = 10 ** rng.uniform(-5, -2)
        self.is_cut = False

    def send(self, take: Callable[..., object], *arguments: Any) -> None:
        """Let the other side *take* something, unless the connection breaks before."""
        delay = self._rng.expovariate(1 / self._delay_s)
        if self._rng.random() < 0.01:
            delay += self._rng.uniform(0.01, 0.5)  # the other side stands still
        self._last = max(self._last + 1e-9, self._loop.time() + delay)
        self._loop.call_at(self._last, self._arrive, take, arguments)

    def cut(self) -> None:
        """What has not arrived never will."""
        self.is_cut = True

    def _arrive(self, take: Callable[..., object], arguments: Any) -> None:
        if not self.is_cut:
            take(*arguments)


class SimulatedPeer:
    """A process's connection to the gateway, in the place of a `Peer`.

    Args:
        loop: The clock.
        rng: Decides how long things take.
        take: Takes the frames that the process is sent.
        gone: Called when the gateway has closed the connection.
    """

    address = ""

    def __init__(
        self,
        loop: VirtualLoop,
        rng: random.Random,
        take: Callable[[bytes], None],
        gone: Callable[[], None],
    ) -> None:
        self._down, self.up = Wire(loop, rng), Wire(loop, rng)
        self._take, self._gone = take, gone
        self._is_closed = False

    def send(self, *parts: bytes) -> None:
        """See `Peer.send`."""
        if not self._is_closed:
            self._down.send(self._take, b"".join(parts))

    def is_ready(self) -> bool:
        """See `Peer.is_ready`."""
        return True

    async def drained(self) -> bool:
        """See `Peer.drained`."""
        return not self._is_closed

    def close(self) -> None:
        """See `Peer.close`: what was sent still arrives."""
        if not self._is_closed:
            self._is_closed = True
            self.up.cut()
            self._down.send(self._gone)

    def abort(self) -> None:
        """See `Peer.abort`: what is on its way is lost."""
        self._down.cut()
        self.up.cut()
        if not self._is_closed:
            self._is_closed = True
            self._gone()
