"""Origins of the pages that may use a server from a browser."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from wallaroo.gateway.http.hosts import LOOPBACK, may_be_ours, name_in


class Origins:
    """Decides which pages may use a server, by the headers Origin and Host.

    Args:
        allowed: Origins of pages, besides those of the server's own address; `*` for all.
        host: Name or address that the server listens on.
        secure: Whether a page under a name that only resolves to the server's address reaches
            nothing: the server has a certificate for its name, or requires a token.

    Example:
        >>> origins = Origins(["https://shop.example.org"], "0.0.0.0", secure=False)
        >>> origins.allow("https://shop.example.org"), origins.allow("https://evil.example")
        (True, False)
        >>> origins.are_own("http://10.0.0.1:7010", "10.0.0.1:7010")
        True
        >>> origins.are_own("http://evil.example:7010", "evil.example:7010")
        False
    """

    def __init__(self, allowed: Collection[str], host: str, *, secure: bool) -> None:
        self._allowed = frozenset(allowed)
        self._names = {host.lower(), *(urlsplit(origin).hostname for origin in allowed)}
        self._local = host in LOOPBACK
        self._secure = secure

    def allow(self, origin: str) -> bool:
        """Whether pages of *origin* are among those that are allowed."""
        return "*" in self._allowed or origin in self._allowed

    def are_own(self, origin: str, host: str) -> bool:
        """Whether *origin* is the server's, which was called *host*."""
        return origin.partition("://")[2] == host and self.know(host)

    def know(self, host: str) -> bool:
        """Whether no page of another site can have called the server *host*."""
        if self._secure or "*" in self._allowed:
            return True
        name = name_in(host)
        return name in self._names or may_be_ours(name, local=self._local)

    def headers(self, origin: str | None) -> dict[str, str]:
        """Headers by which a browser lets the page that asks read the answer."""
        if origin is None or not self.allow(origin):
            return {"Vary": "Origin"}
        return {"Vary": "Origin", "Access-Control-Allow-Origin": origin}
