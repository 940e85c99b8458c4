"""Clients that speak something else to a port of frames: they are told what the port expects."""

from __future__ import annotations

import re
from typing import NamedTuple

from wallaroo.wire.framing import Framing

_HTTP = re.compile(
    rb"(GET|HEAD|POST|PUT|DELETE|CONNECT|OPTIONS|TRACE|PATCH) [^\s]{1,2000} HTTP/1\.[01]\r?\n"
)
_HTTP_2 = b"PRI * HTTP/2.0\r\n"
_TEXT = re.compile(rb"[\t\r\n\x20-\x7e]{4,}")
_SHOWN = 20
"""Bytes of a text that the log shows."""


class Misdirected(NamedTuple):
    """What to tell a client that speaks something else."""

    reason: str
    """For the log."""
    answer: bytes
    """For the client."""


def http_request(data: bytes, framing: Framing) -> Misdirected | None:
    r"""What to tell the sender of *data*, its first bytes, if they begin a request of HTTP.

    No frame is mistaken for one: it would need a header that reads as a method, and a payload
    that goes on as the rest of the request's line.

    Example:
        >>> http_request(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", Framing(4, ">I")).answer[:24]
        b'HTTP/1.1 400 Bad Request'
        >>> http_request(b"\0\0\0\2ok", Framing(4, ">I"))
    """
    if _HTTP.match(data) is None and not data.startswith(_HTTP_2):
        return None
    expects = _expected(framing)
    body = f"This is not a web server. {expects[0].upper()}{expects[1:]}.\n".encode()
    head = (
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return Misdirected(f"an HTTP request came; {expects}", head.encode() + body)


def text(data: bytes, framing: Framing) -> str | None:
    r"""Why *data*, the first bytes of a connection, are no frame, if that is because they are text.

    Args:
        data: They were refused: their header announces more than the limit.
        framing: The source's.

    Example:
        >>> text(b"hello\n", Framing(4, ">I"))[:49]
        "text came, 'hello\\n'; this port expects frames: a"
    """
    if _TEXT.fullmatch(data[:_SHOWN]) is None:
        return None
    return f"text came, {data[:_SHOWN].decode('ascii')!r}; {_expected(framing)}"


def _expected(framing: Framing) -> str:
    size = f"a header of {framing.header_length} byte{'s' * (framing.header_length > 1)}"
    layout = f" ({framing.length_fmt!r})" if isinstance(framing.length_fmt, str) else ""
    return (
        f"this port expects frames: {size}{layout} with the length of the payload, at most "
        f"{framing.max_frame}, and the payload"
    )
