"""A receiver of webhooks, over a real socket."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.helpers import PATIENCE_S


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]
    """By name in lower case."""
    body: bytes

    @property
    def key(self) -> str:
        return self.headers["idempotency-key"]

    @property
    def numbers(self) -> range:
        """The numbers of outputs that the key says."""
        first, *last = self.key.split("-")[2:]
        return range(int(first), int(last[0] if last else first) + 1)


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes = b"ok"
    headers: tuple[tuple[str, str], ...] = ()


class Receiver:
    """Answers with what *answers* says of a request; remembers all requests."""

    def __init__(
        self,
        answers: Callable[[Request], Reply | None] = lambda _: Reply(),
        tls: ssl.SSLContext | None = None,
        port: int = 0,
    ) -> None:
        self.answers = answers
        self.requests: list[Request] = []
        self.connections = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                receiver.connections += 1
                super().setup()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.path, headers, body)
                receiver.requests.append(request)
                reply = receiver.answers(request)
                if reply is None:  # no answer at all
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in reply.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            def log_message(self, *_args: Any) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_args: Any) -> None:
                """Say nothing: clients may go at any time."""

        self._server = Server(("127.0.0.1", port), Handler)
        self.port = self._server.server_port
        if tls is not None:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)

    @property
    def bodies(self) -> list[bytes]:
        return [request.body for request in self.requests]
