"""Connections are limited in number, and the time for the head of a request ends with the head."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
import socket
from collections.abc import Iterator
from unittest import mock

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs
from uvicorn.server import ServerState

from tests.helpers import PATIENCE_S, wait_until
from wallaroo.gateway.http.connection import Admission, HTTPConnection, limited
from wallaroo.gateway.http.serving import Serving
from wallaroo.gateway.limits import SourceLimits

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"


async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def is_timed(connection: HTTPConnection) -> bool:
    return connection._timer is not None


def connected(state: ServerState) -> HTTPConnection:
    config = uvicorn.Config(answer, lifespan="off", log_config=None)
    config.load()
    connection = limited(3600.0)(config, state, {}, asyncio.get_running_loop())
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


@pytest.mark.parametrize(
    ("version", "lengths"),
    [
        ("1.1", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"),
        ("1.1", "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n"),
        ("1.0", "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n"),
    ],
)
def test_a_body_of_two_lengths_is_refused_and_what_follows_is_not_read(
    version: str, lengths: str
) -> None:
    request = f"POST / HTTP/{version}\r\nHost: a\r\n{lengths}\r\n0\r\n\r\n"
    smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        serving = Serving(answer, listener, None, "HTTP In", None, 60)
        with socket.create_connection(address, PATIENCE_S) as client:
            client.sendall((request + smuggled).encode())
            with client.makefile("rb") as answers:
                got = answers.read()  # until the end of the connection
        serving.stop()
    assert got.startswith(b"HTTP/1.1 400 ")
    assert got.count(b"HTTP/1.1 ") == 1
    assert b"Send either a Content-Length or" in got


def ask(client: http.client.HTTPConnection) -> int:
    client.request("GET", "/")
    response = client.getresponse()
    response.read()
    return response.status


@pytest.fixture
def opened() -> Iterator[list[http.client.HTTPConnection]]:
    """Clients of a server that admits three connections, two of them from one address."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        contextlib.ExitStack() as clients,
    ):
        admission = Admission(SourceLimits(3, 2), {"source": "In"})
        serving = Serving(answer, listener, None, "HTTP In", admission, 60)
        clients.callback(serving.stop)
        made, (host, port) = [], listener.getsockname()
        for number in (1, 1, 1, 2, 3):
            client = http.client.HTTPConnection(
                host, port, timeout=PATIENCE_S, source_address=(f"127.0.0.{number}", 0)
            )
            clients.callback(client.close)
            made.append(client)
        yield made


def test_connections_over_a_limit_are_refused_and_the_others_go_on(
    opened: list[http.client.HTTPConnection],
) -> None:
    with capture_logs() as logs:
        assert [ask(client) for client in opened] == [200, 200, 503, 200, 503]
        assert [ask(client) for client in opened] == [200, 200, 503, 200, 503]
    told = {(entry["source"], entry["peer"], entry["reason"]) for entry in logs}
    assert told == {
        ("In", "127.0.0.1", "2 connections from 127.0.0.1 are open"),
        ("In", "127.0.0.3", "3 connections are open"),
    }


def test_a_connection_that_has_ended_makes_room(opened: list[http.client.HTTPConnection]) -> None:
    first, second, third, *_ = opened
    assert [ask(first), ask(second), ask(third)] == [200, 200, 503]
    first.close()
    wait_until(lambda: ask(third) == 200, "room")


@pytest.mark.parametrize("complete", [True, False])
def test_a_sender_that_closes_its_side_gets_the_answer_to_what_was_complete(
    complete: bool,
) -> None:
    body = b"{}" if complete else b"{"
    asked = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n" + body

    async def answer_slowly(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        await asyncio.sleep(0.05)  # the other side is closed by then
        await answer(scope, receive, send)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        admission = Admission(SourceLimits(), {"source": "In"})
        serving = Serving(
            answer_slowly, listener, None, "HTTP In", admission, 60, answers_half_closed=True
        )
        with socket.create_connection(listener.getsockname(), PATIENCE_S) as client:
            client.sendall(asked)
            client.shutdown(socket.SHUT_WR)
            with client.makefile("rb") as answers:
                said = answers.read()
        serving.stop()
    assert said.startswith(b"HTTP/1.1 200 OK\r\n") is complete
