"""The time for the head of a request ends with the head."""

from __future__ import annotations

import asyncio
import logging
from unittest import mock

import pytest
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


def connected(state: ServerState) -> TimedHeads:
    config = uvicorn.Config(answer, lifespan="off", log_config=None)
    config.load()
    connection = timed_heads(3600.0)(config, state, {}, asyncio.get_running_loop())
    transport = mock.Mock()
    transport.is_closing.return_value = False
    transport.get_extra_info.return_value = None
    connection.connection_made(transport)
    return connection


async def requests() -> None:
    state = ServerState()
    connection = connected(state)
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


async def no_body(late: bool) -> None:
    state = ServerState()
    connection = connected(state)
    connection.data_received(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    if late:
        await asyncio.gather(*state.tasks)  # the answer is there before the body
    connection.data_received(b"no chunk\r\n")
    await asyncio.gather(*state.tasks)
    connection.transport.close.assert_called()  # type: ignore[attr-defined]
    connection.connection_lost(None)


@pytest.mark.parametrize("late", [False, True])
def test_a_body_that_is_no_http_ends_its_connection_without_an_error(
    late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(no_body(late))
    assert [one for one in caplog.records if one.levelno > logging.WARNING] == []
