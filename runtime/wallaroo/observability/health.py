"""Health probes over HTTP.

`/healthz` and `/readyz` return 200 or 503 with a sentence, `/status` returns JSON, and `/metrics`
returns metrics in Prometheus's format.
"""

from __future__ import annotations

import contextlib
import functools
import json
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from wallaroo.api.addresses import Address
from wallaroo.errors import RuntimeFailure
from wallaroo.system.binding import why_not_bound
from wallaroo.system.unauthenticated import Strangers

_MOST_CALLERS = 64
"""Connections at a time, each with a thread; a flood from one address ends its own."""


class Health(NamedTuple):
    """The result of a probe."""

    good: bool
    """Whether the probe succeeded."""
    reason: str
    """A sentence that explains the result."""


Probe = Callable[[], Health]
"""A probe; must return within about a second. An exception counts as failure."""


class HealthServer:
    r"""Serves probes in separate threads; a context manager.

    Args:
        address: Address to listen on; port 0 to let the system choose a port.
        probes: Probes by path, `/healthz` and `/readyz`.
        status: Returns the content of `/status`.
        metrics: Returns the content of `/metrics` in Prometheus's text format; None to disable it.

    Raises:
        RuntimeFailure: The address cannot be bound.

    Example:
        >>> import urllib.request
        >>> probes = {"/healthz": lambda: Health(True, "well")}
        >>> with HealthServer(Address("127.0.0.1", "0"), probes, dict) as server:
        ...     with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz") as answer:
        ...         answer.status, answer.read()
        (200, b'well\n')
    """

    def __init__(
        self,
        address: Address,
        probes: Mapping[str, Probe],
        status: Callable[[], Mapping[str, Any]],
        metrics: Callable[[], str] | None = None,
    ) -> None:
        host, port = address

        class Handler(_Handler):
            def answer(self, path: str) -> tuple[int, str, str]:
                if path == "/status":
                    return 200, "application/json", json.dumps(status(), default=str)
                if path == "/metrics" and metrics is not None:
                    return 200, "text/plain; version=0.0.4", metrics().rstrip()
                if path not in probes:
                    paths = [*probes, "/status", *(["/metrics"] if metrics is not None else ())]
                    return 404, "text/plain", f"not found; use {', '.join(paths)}"
                health = probes[path]()
                return 200 if health.good else 503, "text/plain", health.reason

        try:
            self._server = _Server((host, int(port)), Handler)
        except (OSError, UnicodeError) as error:
            reason = why_not_bound(error, host, "--health")
            msg = f"the health server cannot listen on {host}:{port}: {reason}"
            raise RuntimeFailure(msg) from error
        self.port: int = self._server.server_address[1]
        """The bound port."""
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="health", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        self._callers = Strangers(_MOST_CALLERS)
        self._numbers: dict[socket.socket, int] = {}
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a caller in a thread of its own; if there are too many, one of them is cut off."""
        end = functools.partial(_cut_off, request)
        self._numbers[request] = self._callers.admit(client_address[0], end)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, which counts no more."""
        self._callers.dismiss(self._numbers.pop(request))
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: a client that resets its connection, or sends no HTTP, is not our failure.

        Python's own method prints a trace of each to standard error.
        """


def _cut_off(request: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended by itself
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10.0

    def answer(self, path: str) -> tuple[int, str, str]:
        """Return status, content type and text for *path*."""
        raise NotImplementedError

    def do_GET(self) -> None:
        try:
            status, kind, text = self.answer(self.path.partition("?")[0])
        except Exception as error:  # a probe that raises has failed
            status, kind, text = 503, "text/plain", f"{type(error).__name__}: {error}"
        body = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing: probes come every few seconds."""
