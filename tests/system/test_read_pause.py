"""A connection that is paused when it is made is not read; asyncio alone does not ensure that."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from wallaroo.system.read_pause import pause_reading


class Paused(asyncio.Protocol):
    """Paused when it is made, and then perhaps resumed at once."""

    def __init__(self, afterwards: Callable[[asyncio.Transport], None]) -> None:
        self._afterwards = afterwards
        self.received = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        pause_reading(transport)
        self._afterwards(transport)

    def data_received(self, data: bytes) -> None:
        assert data == b"early"
        self.received.set()


async def connect(
    afterwards: Callable[[asyncio.Transport], None],
) -> tuple[asyncio.Transport, Paused]:
    """A connection whose other side has sent something already."""
    here, there = socket.socketpair()
    with there:
        there.sendall(b"early")
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(lambda: Paused(afterwards), sock=here)
    for _ in range(10):  # rounds of the loop, in each of which it could be read
        await asyncio.sleep(0)
    return transport, protocol


def test_it_is_read_when_it_is_resumed() -> None:
    async def scenario() -> None:
        transport, protocol = await connect(lambda _: None)
        assert not protocol.received.is_set()
        transport.resume_reading()
        await protocol.received.wait()
        transport.abort()

    asyncio.run(scenario())


@pytest.mark.parametrize("method", ["resume_reading", "abort"])
def test_what_is_done_with_it_at_once_holds(method: str) -> None:
    async def scenario() -> None:
        transport, protocol = await connect(lambda transport: getattr(transport, method)())
        assert protocol.received.is_set() == (method == "resume_reading")
        transport.abort()

    asyncio.run(scenario())
