"""The reason why a broker's certificate is not trusted, which librdkafka does not tell."""

from __future__ import annotations

import functools
import re
import socket
import ssl
import time
from pathlib import Path

from wallaroo.connectors.kafka.settings import ClientSettings

_CONNECT_S = 2.0
_PERIOD_S = 30.0
"""Seconds in which a broker is asked once."""
_NOT_VERIFIED = re.compile(
    r"ssl://(?P<host>.+):(?P<port>\d+)/.*certificate verify failed", re.DOTALL
)


def not_trusted(reason: str, settings: ClientSettings) -> str | None:
    """Why the certificate is not trusted of which librdkafka says *reason*, as the broker shows it.

    None if *reason* is about something else, or the broker cannot be asked.
    """
    if (found := _NOT_VERIFIED.search(reason)) is None:
        return None
    authorities = str(settings.options.get("ssl.ca.location", ""))
    period = int(time.monotonic() / _PERIOD_S)  # errors are put into words several times a second
    return _asked(found["host"].strip("[]"), int(found["port"]), authorities, period)


@functools.lru_cache(maxsize=16)
def _asked(host: str, port: int, location: str, _period: int) -> str | None:
    """Ask the broker once in a period; see `not_trusted`."""
    authorities = Path(location)
    try:
        context = ssl.create_default_context(
            cafile=location if authorities.is_file() else None,
            capath=location if location and authorities.is_dir() else None,
        )
        with (
            socket.create_connection((host, port), _CONNECT_S) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        why = error.verify_message.rstrip(".")
        return f"the certificate of {host}:{port} is not trusted: {why}"
    except (OSError, ValueError):
        return None
