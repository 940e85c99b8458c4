"""The time for the head of a request ends with the head."""

from __future__ import annotations

import asyncio
from unittest import mock

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from wallaroo.gateway.connectors.http.heads import TimedHeads, timed_heads

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"


async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def is_timed(connection: TimedHeads) -> bool:
    return connection._timer is not None


async def requests() -> None:
    config = uvicorn.Config(answer, lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    connection = timed_heads(3600.0)(config, state, {}, asyncio.get_running_loop())
    transport = mock.Mock()
    transport.is_closing.return_value = False
    transport.get_extra_info.return_value = None
    connection.connection_made(transport)
    for _ in range(2):
        connection.data_received(HEAD)
        assert is_timed(connection)
        connection.data_received(b"\r\n")
        assert not is_timed(connection)
        await asyncio.gather(*state.tasks)
        assert not is_timed(connection)  # now uvicorn's own limit holds
    connection.data_received(HEAD)
    connection.connection_lost(None)
    assert not is_timed(connection)


def test_the_time_is_that_of_each_head_alone() -> None:
    asyncio.run(requests())
