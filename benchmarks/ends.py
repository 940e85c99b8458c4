"""The two ends of a measured stream, each a separate process, as lean as Python can be.

python -m benchmarks.ends send HOST:PORT FILE          prints when it began
python -m benchmarks.ends receive bytes|lines COUNT    prints its address, and when it had
                                                        COUNT, and when as many more, …
python -m benchmarks.ends post HOST:PORT TYPE CONNECTIONS REQUESTS FILE
                                                        prints the seconds it took
"""

from __future__ import annotations

import select
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


def post(address: str, kind: str, connections: int, requests: int, file: str) -> None:
    """POST a file again and again, with one request at a time on each connection.

    Raises:
        RuntimeError: An answer is not 202.
    """
    body = Path(file).read_bytes()
    head = f"POST / HTTP/1.1\r\nHost: {address}\r\nContent-Type: {kind}\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    clients = {one.fileno(): one for one in (connected(address) for _ in range(connections))}
    got, size, left = dict.fromkeys(clients, b""), 0, requests - connections
    waiting = select.epoll()
    began = time.monotonic()
    for number, client in clients.items():
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting.register(number, select.EPOLLIN)
        client.sendall(request)
    unanswered = connections
    while unanswered:
        for number, _ in waiting.poll():
            answer = got[number] + clients[number].recv(1 << 16)
            size = size or _size_of(answer)  # all answers are alike
            got[number] = answer = b"" if size and len(answer) >= size else answer
            if answer:
                continue
            if left:
                clients[number].sendall(request)
                left -= 1
            else:
                unanswered -= 1
    print(time.monotonic() - began, flush=True)


def _size_of(answer: bytes) -> int:
    """Size of an answer that begins like *answer*; 0 if its head is not complete."""
    if not answer.startswith(b"HTTP/1.1 202"):
        raise RuntimeError(answer)
    head, end, _ = answer.partition(b"\r\n\r\n")
    if not end:
        return 0
    body = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    return len(head) + len(end) + body


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(*sys.argv[2:4])
    elif sys.argv[1] == "post":
        address, kind, connections, requests, file = sys.argv[2:]
        post(address, kind, int(connections), int(requests), file)
    else:
        receive(sys.argv[2], int(sys.argv[3]))
