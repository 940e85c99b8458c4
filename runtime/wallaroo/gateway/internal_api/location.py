"""Locations of the internal API: `unix:PATH`, `http://HOST:PORT` or `https://HOST:PORT`.

A file in the state directory has the location, for commands.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from wallaroo.errors import RuntimeFailure

_FILE = "endpoint.json"
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


@dataclass(frozen=True)
class Endpoint:
    """How to reach a gateway, for processes that may read its state directory."""

    location: str
    """Where it listens, as above."""
    token: str | None
    """The token to send."""

    def write(self, directory: Path) -> None:
        """Write it to a state *directory*, readable for its owner only."""
        fresh = directory / f"{_FILE}.new"
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(asdict(self), file)
        fresh.replace(directory / _FILE)

    @classmethod
    def read(cls, directory: Path) -> Self:
        """The endpoint of the gateway that uses *directory*.

        Raises:
            RuntimeFailure: There is none.
        """
        try:
            return cls(**json.loads((directory / _FILE).read_text()))
        except (OSError, ValueError, TypeError) as error:
            msg = f"{directory} is in use, but {directory / _FILE} cannot be read: {error}"
            raise RuntimeFailure(msg) from error
