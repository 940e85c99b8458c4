"""The network in front of an object store, which fails as tests say."""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from uuid import uuid4

Fault = Callable[[str, str], str | None]
"""Returns how a request fails, from its method and path: a code of S3's, `lost` if its answer does
not arrive, `silent` if it has none before the next fault, or `late`; None if it does not."""
_STATUS = {"InternalError": 500, "SlowDown": 503, "ExpiredToken": 403}
_LATE_S = 2.0
_HOP = ("expect", "connection", "transfer-encoding")
"""Headers of one connection alone."""


def _none(_method: str, _path: str) -> str | None:
    return None


class Proxy:
    """Forwards requests to an address; a context manager.

    Args:
        target: `HOST:PORT`.
    """

    def __init__(self, target: str) -> None:
        self.faults = Counter[str]()
        """How often each fault has occurred."""
        self._fault: Fault = _none
        self._changed = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(target, self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.heal()
        self._server.shutdown()
        self._server.server_close()

    def fail(self, fault: Fault) -> None:
        """Let requests fail from now on."""
        self._changed.set()
        self._changed, self._fault = threading.Event(), fault

    def heal(self) -> None:
        """Forward all requests again."""
        self.fail(_none)

    def fault_of(self, method: str, path: str) -> str | None:
        """How a request fails; returns when it does."""
        if (fault := self._fault(method, path)) is None:
            return None
        self.faults[fault] += 1
        if fault in ("late", "silent"):
            self._changed.wait(_LATE_S if fault == "late" else None)
            return None
        return fault


def _handler(target: str, proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            body = self._body()
            fault = proxy.fault_of(self.command, self.path)
            if fault in _STATUS:
                text = f"<Code>{fault}</Code><Message>{fault}</Message>"
                text = f"<Error>{text}<RequestId>{uuid4()}</RequestId></Error>"
                self._answer(_STATUS[fault], [("Content-Type", "application/xml")], text.encode())
                return
            connection = http.client.HTTPConnection(target)
            connection.putrequest(
                self.command, self.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in self.headers.items():
                if name.lower() not in (*_HOP, "content-length"):
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            if fault == "lost":
                self.close_connection = True
                return
            self._answer(answer.status, answer.getheaders(), content)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
                pieces = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    pieces += self.rfile.read(size)
                    self.rfile.readline()
                while self.rfile.readline().strip():
                    pass
                return pieces
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response_only(status)
            length = next((v for n, v in headers if n.lower() == "content-length"), None)
            for name, value in headers:
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            if self.command != "HEAD":
                length = str(len(content))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _forward  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
