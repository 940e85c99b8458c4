"""Clients that speak HTTP or text to a port of frames are told what it expects."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.connectors.tcp.test_source import connect, finish, is_closed
from tests.gateway.harness import U32, RunningListener, source
from tests.helpers import PATIENCE_S
from wallaroo.wire.framing import Framing

LARGE, SHORT = range(2)
EXPECTED = (
    "this port expects frames: a header of 4 bytes ('>I') with the length of the payload, at most "
    "16777216, and the payload"
)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningListener]:
    # "GE" is a length that a header of two bytes may announce
    with RunningListener(tmp_path, [source(), source("short", Framing(2, ">H"))]) as listener:
        yield listener


@pytest.mark.parametrize("number", [LARGE, SHORT])
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
def test_a_client_of_http_is_answered_in_words(
    running: RunningListener, number: int, method: str
) -> None:
    with capture_logs() as logs:
        client = http.client.HTTPConnection(*running.addresses[number], timeout=PATIENCE_S)
        client.request(method, "/orders", b'{"order": 1}' if method == "POST" else None)
        answer = client.getresponse()
        assert (answer.status, answer.reason) == (400, "Bad Request")
        body = answer.read().decode()
        client.close()
    assert method == "HEAD" or body.startswith("This is not a web server. This port expects frames")
    (closed,) = [entry for entry in logs if entry["event"] == "connection closed"]
    assert closed["reason"].startswith("an HTTP request came; this port expects frames: a header")
    assert running.journal.end == 0


def test_a_request_of_http_2_is_answered_too(running: RunningListener) -> None:
    with connect(running) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 400"


def test_the_log_names_text_that_came_in_place_of_frames(running: RunningListener) -> None:
    with capture_logs() as logs:
        for data in (b"hello, world\n", b"GET me some\n", b"\xff\xff\xff\xff"):
            with connect(running) as connection:
                connection.sendall(data)
                assert is_closed(connection)
        with connect(running) as connection:
            connection.sendall(U32.frame(b"one") + b"text later\n")
            assert is_closed(connection)
    reasons = [entry["reason"] for entry in logs if entry["event"] == "connection closed"]
    assert reasons == [
        f"text came, 'hello, world\\n'; {EXPECTED}",
        f"text came, 'GET me some\\n'; {EXPECTED}",
        "a frame of 4294967295 bytes; the limit is 16777216",
        "a frame of 1952807028 bytes; the limit is 16777216",
    ]


def test_frames_whose_payloads_are_requests_are_messages(running: RunningListener) -> None:
    request = b"GET / HTTP/1.1\r\n\r\n"
    for number, framing in ((LARGE, U32), (SHORT, Framing(2, ">H"))):
        with connect(running, number) as connection:
            connection.sendall(framing.frame(request))
            finish(connection)
        running.wait_until_idle()
        assert running.payloads(source=number) == [request]
