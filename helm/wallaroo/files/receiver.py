"""The receiver that the chart adds to a release without `outputs`.

Prints up to 20 outputs per second to its log, with the number of those omitted, and keeps the most
recent ones, so that `helm test` can ask whether one has arrived. Its argument is a JSON object:
`{"ports": [7002], "http": 7981, "format": "text" or "hex"}`.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections import deque
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

SHOWN_A_SECOND = 20
"""Maximum number of outputs printed per second: nobody reads more in a log."""
KEPT_BYTES = 16 * 1024**2
"""Number of bytes kept per connection."""
KEPT_CONNECTIONS = 4
"""Number of connections whose bytes are kept: the gateway opens one per sink, and reconnects."""
HEADER = 4
"""Size of a frame's length field, in bytes."""


class Receiver:
    """Accepts outputs on any number of connections.

    Args:
        shown_as: `text`: outputs are lines; `hex`: they are frames with a big-endian length.
    """

    def __init__(self, shown_as: str) -> None:
        self._shown_as = shown_as
        self._kept: deque[bytearray] = deque(maxlen=KEPT_CONNECTIONS)
        self._shown = self._hidden = 0
        self.received = 0
        """Number of outputs received so far."""

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Receive the outputs of one connection."""
        kept = bytearray()
        self._kept.append(kept)
        rest = b""
        try:
            while piece := await reader.read(256 * 1024):
                kept += piece
                del kept[: max(0, len(kept) - KEPT_BYTES)]
                whole, rest = self._cut(rest + piece)
                for output in whole:
                    self._show(output)
        except OSError as error:
            print(f"connection closed: {error}", flush=True)
        finally:
            writer.close()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one HTTP request: `/healthz`, or `/contains?hex=…`, which returns yes or no."""
        line = (await reader.readline()).split()
        url = urlsplit(line[1].decode("latin-1") if len(line) > 1 else "/")
        status, text = "404 Not Found", "ask for /healthz or /contains?hex=…"
        if url.path == "/healthz":
            status, text = "200 OK", f"{self.received} outputs so far"
        elif url.path == "/contains":
            try:
                output = bytes.fromhex(parse_qs(url.query).get("hex", [""])[0])
            except ValueError:
                status, text = "400 Bad Request", "hex is not hexadecimal"
            else:
                status, text = "200 OK", "yes" if any(output in k for k in self._kept) else "no"
        head = f"HTTP/1.0 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
        writer.write(f"{head}\r\n{text}".encode())
        await writer.drain()
        writer.close()

    async def tell_hidden(self) -> None:
        """Once a second, print how many outputs were omitted, and reset the limit."""
        while True:
            await asyncio.sleep(1)
            if self._hidden:
                print(f"… and {self._hidden:,} more, {self.received:,} in all", flush=True)
            self._shown = self._hidden = 0

    def _show(self, output: bytes) -> None:
        self.received += 1
        if self._shown >= SHOWN_A_SECOND:
            self._hidden += 1
            return
        self._shown += 1
        shown = (
            output.hex() if self._shown_as == "hex" else output.decode(errors="backslashreplace")
        )
        print(shown, flush=True)

    def _cut(self, data: bytes) -> tuple[list[bytes], bytes]:
        """The complete outputs at the start of *data*, and the remaining bytes."""
        if self._shown_as == "text":
            *whole, rest = data.split(b"\n")
            return whole, rest
        frames = list(_frames(data))
        return frames, data[sum(HEADER + len(frame) for frame in frames) :]


def _frames(data: bytes) -> Iterator[bytes]:
    start = 0
    while (begin := start + HEADER) <= len(data):
        end = begin + int.from_bytes(data[start:begin])
        if end > len(data):
            return
        yield data[begin:end]
        start = end


def _listener(port: int) -> socket.socket:
    """A socket that listens on *port* of all addresses, IPv4 and IPv6 if both are available."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


async def main(settings: dict[str, object]) -> None:
    """Receive until SIGTERM or SIGINT."""
    receiver = Receiver(str(settings["format"]))
    ports = settings["ports"]
    assert isinstance(ports, list)
    for port in ports:
        listener = _listener(port)
        await asyncio.start_server(receiver.take, sock=listener)
        print(f"listening on port {listener.getsockname()[1]}", flush=True)
    listener = _listener(int(str(settings["http"])))
    await asyncio.start_server(receiver.answer, sock=listener)
    print(f"answering on port {listener.getsockname()[1]}", flush=True)
    telling = asyncio.create_task(receiver.tell_hidden())
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    telling.cancel()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
