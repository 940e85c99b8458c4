"""A null handler on uvicorn, with our options: it reads each request, and answers as ours does.

Prints its address.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

from wallaroo.gateway.http.serving import OPTIONS

_Message = MutableMapping[str, Any]


async def answer(
    _scope: _Message,
    receive: Callable[[], Awaitable[_Message]],
    send: Callable[[_Message], Awaitable[None]],
) -> None:
    """Answer one request."""
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"11")]
    await send({"type": "http.response.start", "status": 202, "headers": headers})
    await send({"type": "http.response.body", "body": b"1 accepted\n"})


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        print("{}:{}".format(*listener.getsockname()), flush=True)
        uvicorn.Server(uvicorn.Config(answer, http="h11", **OPTIONS)).run([listener])
