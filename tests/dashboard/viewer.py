"""A client of the dashboard: requests and event streams over real connections."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.helpers import PATIENCE_S, wait_until


@dataclass(frozen=True)
class Answer:
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    @property
    def json(self) -> Any:
        """The body as JSON, of which the standard has neither NaN nor infinities."""
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body, parse_constant=_refuse)


class Event(NamedTuple):
    """An event of a stream; a comment has no name."""

    name: str
    data: Any


class Viewer:
    """Views the dashboard at *url*."""

    def __init__(self, url: str) -> None:
        self._at = urlsplit(url)

    def connect(self) -> socket.socket:
        """Open a connection for bytes of any kind."""
        assert self._at.hostname is not None
        return socket.create_connection((self._at.hostname, self._at.port or 0), PATIENCE_S)

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Request *path*, which is not changed in any way."""
        with self._requested(path, method, body, headers or {}) as response:
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())

    @contextlib.contextmanager
    def events(self) -> Iterator[Iterator[Event]]:
        """The events of the page, for as long as the context lasts or the server sends them."""
        with self._requested("/events", "GET", None, {}) as response:
            assert response.status == 200
            assert response.headers["Content-Type"].startswith("text/event-stream")
            yield _events(response)

    def snapshot(self, at: float) -> Any:
        """The snapshot of the time *at*."""
        wait_until(
            lambda: (self.ask("/snapshot").json or {}).get("time") == at, f"the snapshot of {at}"
        )
        return self.ask("/snapshot").json

    @contextlib.contextmanager
    def _requested(
        self, path: str, method: str, body: bytes | str | None, headers: Mapping[str, str]
    ) -> Iterator[HTTPResponse]:
        assert self._at.hostname
        connection = HTTPConnection(self._at.hostname, self._at.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body, dict(headers))
            with connection.getresponse() as response:
                yield response
        finally:
            connection.close()


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _events(response: HTTPResponse) -> Iterator[Event]:
    name = ""
    while line := response.readline().decode().rstrip("\n"):
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
            continue
        assert response.readline() == b"\n"
        yield Event(name, json.loads(value)) if field == "data" else Event("", value)
