"""A schema registry in the test's process, which can be away, slow or secured."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote


class Registry:
    """Speaks as much of Confluent's REST interface as the client asks for.

    Args:
        context: TLS; None for plain HTTP.
        user: `USER:PASSWORD` that is required; None for none.
        port: Port to listen on; 0 for any.
    """

    def __init__(
        self, context: ssl.SSLContext | None = None, user: str | None = None, port: int = 0
    ) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        """Methods and paths of all requests."""
        self.answers: list[tuple[int, bytes, dict[str, str]]] = []
        """What the next requests are answered instead."""
        self.user = user
        self._changed = threading.Condition()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry._take(self, None)

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                registry._take(self, json.loads(self.rfile.read(length)))

            def log_message(self, *_args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"{'http' if context is None else 'https'}://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, subject: str, schema: str, kind: str = "AVRO", **more: Any) -> int:
        """Register *schema*; its number."""
        number = len(self.schemas) + 1
        self.schemas[number] = {"schema": schema, "schemaType": kind, **more}
        self.subjects.setdefault(subject, []).append(number)
        return number

    def wait_until_asked(self, times: int, patience_s: float = 60.0) -> None:
        """Wait until there were so many requests."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.asked) >= times, patience_s)

    def _take(self, request: BaseHTTPRequestHandler, body: Any) -> None:
        with self._changed:
            self.asked.append(f"{request.command} {request.path}")
            self._changed.notify_all()
        due = (
            None if self.user is None else f"Basic {base64.b64encode(self.user.encode()).decode()}"
        )
        headers: dict[str, str] = {}
        if self.answers:
            status, data, headers = self.answers.pop(0)
        elif due is not None and request.headers["Authorization"] != due:
            status, data = 401, b'{"error_code": 401, "message": "Unauthorized"}'
        else:
            status, told = self._answer(unquote(request.path).split("/")[1:], body)
            data = json.dumps(told).encode()
        request.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(data)

    def _answer(self, path: list[str], body: Any) -> tuple[int, dict[str, Any]]:
        match path:
            case ["schemas", "ids", number]:
                if (found := self.schemas.get(int(number))) is not None:
                    return 200, found
            case ["subjects", subject, "versions", version] if body is None:
                if (known := self.subjects.get(subject)) is None:
                    return 404, {"error_code": 40401, "message": f"Subject {subject!r} not found"}
                chosen = known[-1 if version == "latest" else int(version) - 1]
                return 200, {"id": chosen, "version": len(known), **self.schemas[chosen]}
            case ["subjects", subject, *versions] if body is not None:
                for one in self.subjects.get(subject, []):
                    if self.schemas[one]["schema"] == body["schema"]:
                        return 200, {"id": one}
                if versions:
                    kind = body.get("schemaType", "AVRO")
                    return 200, {"id": self.add(subject, body["schema"], kind)}
        return 404, {"error_code": 40403, "message": "Schema not found"}
