"""A server that answers like the Kubernetes API, as far as a test says what to answer."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.helpers import PATIENCE_S

Query = Mapping[str, str]
Answer = tuple[int, Any]
DROP = object()
"""In a watch: break the connection off."""
END = object()
"""In a watch: end it in good order."""


class KubernetesAPI:
    """Answers at a port of its own; a context manager."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[Query], Answer]] = {}
        """By path, what is answered: a status code, and an object or text; it gets the query, or
        under `posted` what was posted."""
        self.watch: queue.SimpleQueue[Any] = queue.SimpleQueue()
        """What watchers get to see: events, DROP, END."""
        self.watched: queue.SimpleQueue[Query] = queue.SimpleQueue()
        """What they asked for, watch by watch."""
        self.deleted: list[str] = []
        """Paths of objects that were deleted."""
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                posted = self.rfile.read(int(self.headers["Content-Length"]))
                self._answer({"posted": posted.decode()})

            do_PATCH = do_POST  # noqa: N815

            def do_GET(self) -> None:
                url = urlsplit(self.path)
                asked = {name: values[0] for name, values in parse_qs(url.query).items()}
                if asked.get("watch"):
                    api.watched.put(asked)
                    api.stream(self)
                    return
                self._answer(asked)

            def do_DELETE(self) -> None:
                api.deleted.append(self.path)
                self._answer({})

            def _answer(self, asked: Query) -> None:
                answer = api.answers.get(unquote(urlsplit(self.path).path))
                status, told = (404, {}) if answer is None else answer(asked)
                body = (told if isinstance(told, str) else json.dumps(told)).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.watch.put(END)
        self._server.shutdown()
        self._server.server_close()

    def client(self) -> Any:
        """The API as the Python package `kubernetes` sees it."""
        from kubernetes import client

        configuration = client.Configuration()
        configuration.host = self.url
        configuration.retries = False
        return client.CoreV1Api(client.ApiClient(configuration))

    def authorization(self) -> Any:
        """Its part that tells who may do what."""
        from kubernetes import client

        return client.AuthorizationV1Api(self.client().api_client)

    def asked_to_watch(self) -> Query:
        """What the next watch asked for."""
        return self.watched.get(timeout=PATIENCE_S)

    def stream(self, handler: BaseHTTPRequestHandler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while (event := self.watch.get()) is not DROP and event is not END:
            line = json.dumps(event).encode() + b"\n"
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            handler.wfile.flush()
        if event is END:
            handler.wfile.write(b"0\r\n\r\n")
        handler.close_connection = True
