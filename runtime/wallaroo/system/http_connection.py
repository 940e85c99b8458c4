"""Connections of clients of HTTP that stay open."""

from __future__ import annotations

import ssl
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import SplitResult


def connection_to(
    url: SplitResult, timeout_s: float, tls: ssl.SSLContext | None = None
) -> HTTPConnection:
    """A connection to the host of *url*, which the first request opens.

    Args:
        url: An `http` or `https` URL with a host.
        timeout_s: Seconds for each step of a request.
        tls: Verifies servers; None for the authorities that the system trusts.

    Example:
        >>> from urllib.parse import urlsplit
        >>> connection_to(urlsplit("https://localhost/"), 5.0).port
        443
    """
    assert url.hostname is not None
    if url.scheme == "https":
        context = tls or ssl.create_default_context()
        return HTTPSConnection(url.hostname, url.port, timeout=timeout_s, context=context)
    return HTTPConnection(url.hostname, url.port, timeout=timeout_s)
