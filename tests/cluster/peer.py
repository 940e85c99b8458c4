"""Sender and receiver in one, in a pod of the application's own image: it knows what is due.

Streams the application's generated data through the Service of its sources, turn by turn, takes the
outputs, and holds each against the plain-Python computation of the application's module `demo`.
What a break has swallowed it sends again: the gateway tells how many messages it has accepted, and
nobody else sends. Called with a JSON object:
`{"status": URL, "host": "market-spread-sources", "port": 7002, "http": 8080, "seed": 7}`.

Over HTTP: `/send?messages=N&rate=R` sends N more, `/stop` ends that after the turn under way, and
`/progress` tells how it stands.
"""

from __future__ import annotations

import collections
import importlib
import json
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

ENDLESS = 10**9
PAUSE_S = 0.05
SILENCE_S = 10.0
"""A gateway that answers, and has accepted nothing for so long, is not reached any more."""


class Due:
    """What has to come, by key, and what has come."""

    def __init__(self, data: Any) -> None:
        self._data = data
        self._lock = threading.Lock()
        self._waiting: dict[bytes, collections.deque[bytes]] = collections.defaultdict(
            collections.deque
        )
        self._seen: set[bytes] = set()
        self.due = self.received = self.repeated = 0
        self.longest_s = 0.0
        """Longest time without an output since messages are being sent."""
        self._last = time.monotonic()
        self.wrong: list[str] = []

    def begin(self) -> None:
        """Messages are sent from now on."""
        with self._lock:
            self.longest_s, self._last = 0.0, time.monotonic()

    def expect(self, outputs: list[bytes]) -> None:
        """*outputs* are due now, each behind the others of its key."""
        with self._lock:
            self.due += len(outputs)
            for output in outputs:
                self._waiting[self._data.key(output)].append(output)

    def take(self, raw: bytes) -> None:
        """An output has come."""
        output = self._data.comparable(raw)
        with self._lock:
            waiting = self._waiting[self._data.key(output)]
            if waiting and waiting[0] == output:
                waiting.popleft()
                self._seen.add(output)
                self.received += 1
                now = time.monotonic()
                self.longest_s, self._last = max(self.longest_s, now - self._last), now
            elif output in self._seen:
                self.repeated += 1
            else:
                self.wrong.append(repr(raw))

    def receive(self, connection: socket.socket) -> None:
        """Take the outputs of one connection."""
        frames, rest = self._data.OUTPUT_FRAMING == "frames", b""
        with connection:
            try:
                while piece := connection.recv(1 << 18):
                    rest += piece
                    whole, rest = _frames(rest) if frames else _lines(rest)
                    for output in whole:
                        self.take(output)
            except OSError:
                return  # a gateway that was killed


class Sender:
    """Sends turns, each when the last is accepted, so that the order of arrival is known."""

    def __init__(self, settings: dict[str, Any], data: Any, due: Due) -> None:
        self._settings = settings
        self._due = due
        self._turns = iter(data.rounds(ENDLESS, settings["seed"]))
        self._passed: collections.deque[tuple[str, list[bytes]]] = collections.deque()
        self._expected = data.expected(self._passing())
        self._connections: dict[str, socket.socket] = {}
        self._accepted: dict[str, int] = collections.defaultdict(int)
        self._changed = threading.Condition()
        self._target = 0
        self._rate = 1000.0
        self.sent = self.connects = 0

    @property
    def sending(self) -> bool:
        """Whether there is more to send."""
        return self.sent < self._target

    def send(self, messages: int, rate: float) -> None:
        """Send *messages* more, *rate* a second."""
        with self._changed:
            self._target, self._rate = self.sent + messages, rate
            self._changed.notify_all()

    def stop(self) -> None:
        """Send no more after the turn under way."""
        with self._changed:
            self._target = self.sent

    def run(self) -> None:
        """Send whenever there is something to send."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self.sending)
                started, before = time.monotonic(), self.sent
            status = self._wait_for_status()
            before_us = {s["name"]: s["accepted"] - self._accepted[s["name"]] for s in status}
            while self.sending:
                source, payloads = next(self._turns)
                self._passed.append((source, payloads))
                self._due.expect(next(self._expected))
                self._send_turn(source, payloads, before_us[source])
                self._accepted[source] += len(payloads)
                self.sent += len(payloads)
                ahead = (self.sent - before) / self._rate - (time.monotonic() - started)
                time.sleep(max(0.0, ahead))

    def _passing(self) -> Iterator[tuple[str, list[bytes]]]:
        while True:
            yield self._passed.popleft()

    def _send_turn(self, source: str, payloads: list[bytes], before_us: int) -> None:
        start = before_us + self._accepted[source]
        accepted = start
        while True:
            try:
                if source not in self._connections:
                    accepted = self._connect(source)
                rest = payloads[accepted - start :]
                framed = b"".join(len(p).to_bytes(4, "big") + p for p in rest)
                self._connections[source].sendall(framed)
            except OSError:
                self._drop(source)
                continue
            if self._wait_until_accepted(source, start + len(payloads)):
                return
            self._drop(source)

    def _connect(self, source: str) -> int:
        """Connect to *source*; how many messages the gateway that is there now has accepted."""
        while True:
            port = int(self._source(source)["where"].rpartition(":")[2])
            try:
                connection = socket.create_connection((self._settings["host"], port), 5)
            except OSError:
                time.sleep(PAUSE_S)
                continue
            connection.settimeout(SILENCE_S)
            self.connects += 1
            self._connections[source] = connection
            return int(self._source(source)["accepted"])

    def _drop(self, source: str) -> None:
        if (connection := self._connections.pop(source, None)) is not None:
            connection.close()

    def _wait_until_accepted(self, source: str, count: int) -> bool:
        """Whether the gateway has *count* messages of *source* before it falls silent."""
        accepted, at = -1, time.monotonic()
        while time.monotonic() - at < SILENCE_S:
            now = int(self._source(source)["accepted"])
            if now >= count:
                return True
            if now > accepted:
                accepted, at = now, time.monotonic()
            if _closed(self._connections[source]):
                return False
            time.sleep(PAUSE_S)
        return False

    def _source(self, source: str) -> dict[str, Any]:
        return next(s for s in self._wait_for_status() if s["name"] == source)

    def _wait_for_status(self) -> list[dict[str, Any]]:
        while True:
            try:
                with urllib.request.urlopen(self._settings["status"], timeout=5) as answer:
                    return list(json.load(answer)["sources"])
            except (OSError, ValueError):
                time.sleep(PAUSE_S)


def _closed(connection: socket.socket) -> bool:
    """Whether the other side has closed *connection*; it never says anything."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.settimeout(SILENCE_S)


def _frames(data: bytes) -> tuple[list[bytes], bytes]:
    whole, start = [], 0
    while start + 4 <= len(data) and (
        end := start + 4 + int.from_bytes(data[start : start + 4], "big")
    ) <= len(data):
        whole.append(data[start:end])
        start = end
    return whole, data[start:]


def _lines(data: bytes) -> tuple[list[bytes], bytes]:
    *whole, rest = data.split(b"\n")
    return [line + b"\n" for line in whole], rest


def main(text: str) -> None:
    """Serve for ever."""
    settings = json.loads(text)
    sys.path.insert(0, "/app")
    data = importlib.import_module("demo")
    due = Due(data)
    sender = Sender(settings, data, due)
    threading.Thread(target=sender.run, daemon=True).start()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            asked = {name: values[0] for name, values in parse_qs(url.query).items()}
            if url.path == "/send":
                due.begin()
                sender.send(int(asked["messages"]), float(asked["rate"]))
            elif url.path == "/stop":
                sender.stop()
            told = {
                "sent": sender.sent,
                "sending": sender.sending,
                "connects": sender.connects,
                "due": due.due,
                "received": due.received,
                "repeated": due.repeated,
                "longest_s": due.longest_s,
                "wrong": len(due.wrong),
                "examples": due.wrong[:5],
            }
            body = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    http = ThreadingHTTPServer(("", settings["http"]), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    listener = socket.create_server(("", settings["port"]))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=due.receive, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1])
