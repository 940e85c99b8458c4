"""The program of `helm test`: sends messages through the Services and checks the outputs.

Its argument is the path of a JSON file, which the chart generates from the `test` values: `sources`
(name to `host:port`), `status` (URL of the gateway's status), `receiver` (URL of the chart's own
receiver, or null), `topics` (whether there may be topics of Kafka), `messages`, `expect`, `tls`
(directories of the sources' certificate and of the test's client certificate; each may be null) and
`timeout_s`.
"""

from __future__ import annotations

import functools
import json
import secrets
import socket
import ssl
import string
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

NONCE_LETTERS = 6
"""Number of letters that replace `{nonce}`: as many as fit an order id of Market Spread."""
PAUSE_S = 0.2
"""Polling interval."""


class Failed(Exception):
    """The test failed."""


class Smoke:
    """One run of the test.

    Args:
        settings: The contents of the JSON file.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._until = time.monotonic() + settings["timeout_s"]
        self._tls = _tls(settings["tls"])
        self._nonce = "".join(secrets.choice(string.ascii_lowercase) for _ in range(NONCE_LETTERS))

    def run(self) -> None:
        """Send all messages and wait for the expected outputs.

        Raises:
            Failed: An output did not arrive in time, a message became a dead letter, or a topic
                cannot be read or written.
        """
        before = self._wait("the gateway's status", self._status)
        for message in self._settings["messages"]:
            self._send(message)
        after = self._status()
        assert after is not None
        accepted = _accepted(after)
        self._wait(
            f"the chunk with the messages sent ({accepted} accepted in all)",
            lambda: (now := self._status()) is not None and _processed(now) >= accepted,
        )
        now = self._status()
        assert now is not None
        for fault in ("set_aside", "unknown_key"):
            if now[fault] != before[fault]:
                msg = f"{now[fault] - before[fault]} messages were counted as {fault}"
                raise Failed(msg)
        print("processed without errors")
        if self._settings["topics"]:
            self._check_topics()
        if self._settings["receiver"] is None:
            print("outputs go elsewhere, and were not checked")
            return
        for expected in self._settings["expect"]:
            output = self._bytes(expected)
            self._wait(f"the output {output!r}", functools.partial(self._received, output))
            print(f"received {output!r}")

    def _send(self, message: Mapping[str, str]) -> None:
        """Send one message and wait until it is accepted, because the next one may depend on it."""
        payload, address = self._bytes(message), self._settings["sources"][message["source"]]
        port = int(address.rpartition(":")[2])
        before = _accepted(self._wait("the gateway's status", self._status), port)
        connection = self._wait(f"a connection to {address}", lambda: _connect(address, self._tls))
        try:
            with connection:
                connection.settimeout(self._settings["timeout_s"])
                connection.sendall(len(payload).to_bytes(4) + payload)
                if isinstance(connection, ssl.SSLSocket):
                    connection.unwrap()  # the gateway closes after it has read everything
                else:
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(4096):
                        pass  # as above
        except OSError as error:
            msg = f"{message['source']} ({address}) did not take a message: {error}"
            raise Failed(msg) from error
        self._wait(
            f"{message['source']} to accept a message",
            lambda: (now := self._status()) is not None and _accepted(now, port) > before,
        )
        print(f"{message['source']} ({address}) has accepted {payload!r}")

    def _check_topics(self) -> None:
        """Wait until no source or sink reports a problem, which may be a temporary one."""
        while problems := _problems(self._wait("the gateway's status", self._status)):
            if time.monotonic() > self._until:
                raise Failed("; ".join(problems))
            time.sleep(PAUSE_S)
        print("no topic has a problem")

    def _bytes(self, message: Mapping[str, str]) -> bytes:
        if "hex" in message:
            return bytes.fromhex(message["hex"].replace("{nonce}", self._nonce.encode().hex()))
        return message["text"].replace("{nonce}", self._nonce).encode()

    def _status(self) -> dict[str, Any] | None:
        response = _get(self._settings["status"])
        return None if response is None else json.loads(response)

    def _received(self, output: bytes) -> bool:
        return _get(f"{self._settings['receiver']}/contains?hex={output.hex()}") == b"yes"

    def _wait(self, what: str, ready: Callable[[], Any]) -> Any:
        """Poll *ready* until its result is true, and return that."""
        while not (result := ready()):
            if time.monotonic() > self._until:
                msg = f"no sign of {what} within {self._settings['timeout_s']} s"
                raise Failed(msg)
            time.sleep(PAUSE_S)
        return result


def _accepted(status: Mapping[str, Any], port: int | None = None) -> int:
    """Messages that all sources have accepted, or the one that listens at *port*."""
    sources = status["sources"]
    return sum(s["accepted"] for s in sources if not port or _listens_at(s["where"], port))


def _listens_at(where: str, port: int) -> bool:
    # a topic is at the address of its brokers, behind other words
    return " " not in where and where.endswith(f":{port}")


def _problems(status: Mapping[str, Any]) -> list[str]:
    return [
        f"{kind} {one['name']} ({one['where']}): {one['problem']}"
        for kind in ("source", "sink")
        for one in status[f"{kind}s"]
        if one["problem"]
    ]


def _processed(status: Mapping[str, Any]) -> int:
    return _accepted(status) - int(status["backlog"])


def _tls(directories: Mapping[str, str | None]) -> ssl.SSLContext | None:
    """A TLS context that trusts exactly the sources' certificate, regardless of its issuer."""
    shown, own = directories["sources"], directories["own"]
    if shown is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the certificate may be issued for external names only
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(Path(shown, "tls.crt"))
    if own is not None:
        context.load_cert_chain(Path(own, "tls.crt"), Path(own, "tls.key"))
    return context


def _connect(address: str, tls: ssl.SSLContext | None) -> socket.socket | None:
    host, _, port = address.rpartition(":")
    try:
        connection = socket.create_connection((host, int(port)), 5)
        return connection if tls is None else tls.wrap_socket(connection)
    except ssl.SSLError as error:
        msg = f"{address} does not speak TLS with the certificate it should show: {error}"
        raise Failed(msg) from error
    except OSError:  # a Service may need a moment to find its pod
        return None


def _get(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bytes(response.read())
    except OSError:  # includes URLError: not reachable yet, or temporarily
        return None


def main(path: str) -> int:
    """Run the test described by the file *path* and return the exit code."""
    try:
        Smoke(json.loads(Path(path).read_text())).run()
    except Failed as failure:
        print(f"FAILED: {failure}")
        return 1
    print("OK")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
