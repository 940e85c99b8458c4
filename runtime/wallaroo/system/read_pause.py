"""Stops the reading of connections, also of those that have just been made."""

from __future__ import annotations

import asyncio
import sys


def pause_reading(transport: asyncio.ReadTransport) -> None:
    """Pause a connection; unlike asyncio's own call, this always has an effect.

    Before Python 3.11.4 (Debian 12 has 3.11.2), asyncio starts to read a connection after its
    `connection_made`, even if that has paused it: https://github.com/python/cpython/issues/103607.

    Args:
        transport: The connection, in the event loop that runs.
    """
    transport.pause_reading()
    if sys.version_info < (3, 11, 4):
        asyncio.get_running_loop().call_soon(_pause_again, transport)


def _pause_again(transport: asyncio.ReadTransport) -> None:
    if not transport.is_reading():  # it was not resumed in the meantime
        transport.resume_reading()
        transport.pause_reading()
