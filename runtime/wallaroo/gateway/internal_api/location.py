"""Locations of the internal API: `unix:PATH`, `http://HOST:PORT` or `https://HOST:PORT`."""

from __future__ import annotations

from pathlib import Path

UNIX = "unix:"
"""How the location of a Unix socket begins."""


def location_of(address: str, *, secret: bool) -> str:
    """Location of the internal API at *address*, `HOST:PORT`.

    Example:
        >>> location_of("gateway:7900", secret=True)
        'https://gateway:7900'
    """
    return f"https://{address}" if secret else f"http://{address}"


def socket_in(location: str) -> Path | None:
    """The Unix socket that *location* names; None if it names a port.

    Example:
        >>> socket_in("unix:/run/gateway.sock"), socket_in("http://gateway:7900")
        (PosixPath('/run/gateway.sock'), None)
    """
    return Path(location.removeprefix(UNIX)) if location.startswith(UNIX) else None


def chunks_socket(location: str) -> Path | None:
    """The socket for chunks of the gateway whose internal API is at *location*.

    None if that is not a Unix socket: then the gateway has a port for chunks.
    """
    path = socket_in(location)
    return None if path is None else path.with_name("chunks.sock")
