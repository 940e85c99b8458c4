"""The two ends of a measured stream, each a process of its own, as lean as Python can be.

python -m benchmarks.ends send HOST:PORT FILE          prints when it began
python -m benchmarks.ends receive bytes|lines COUNT    prints its address, and when it had
                                                        COUNT, and when as many more, …
"""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path


def connected(address: str) -> socket.socket:
    """A connection to `HOST:PORT`."""
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)))


def send(address: str, file: str) -> None:
    """Send a file as fast as the other side takes it."""
    data = Path(file).read_bytes()
    with connected(address) as connection:
        print(time.monotonic(), flush=True)
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)


def receive(unit: str, count: int) -> None:
    """Take outputs, and tell when there have been *count* of them, and as many more."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print("{}:{}".format(*listener.getsockname()), flush=True)
        connection, _ = listener.accept()
        buffer, seen = bytearray(1 << 20), 0
        with connection:
            while size := connection.recv_into(buffer):
                seen += size if unit == "bytes" else buffer.count(b"\n", 0, size)
                if seen >= count:
                    seen -= count
                    print(time.monotonic(), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(*sys.argv[2:4])
    else:
        receive(sys.argv[2], int(sys.argv[3]))
