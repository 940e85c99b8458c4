"""Pages that may use a server from a browser, by the headers Origin and Host."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PRIVATE_DOMAINS = (".localhost", ".internal", ".svc", ".svc.cluster.local")
"""Ends of names that no public site has: those of Services of Kubernetes are among them."""


def name_in(host: str) -> str:
    """The name or address in the header Host.

    Example:
        >>> name_in("Dashboard:4040"), name_in("[::1]:4040"), name_in("[::1]")
        ('dashboard', '::1', '::1')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def may_be_ours(name: str, *, local: bool) -> bool:
    """Whether no site of someone else can be called *name*.

    A page of another site can only reach a server through a name of its own that resolves to the
    server's address (DNS rebinding). Such a name has a public domain, and is not an address.

    Args:
        name: A name or an address.
        local: Whether the server listens on the loopback address.

    Example:
        >>> [may_be_ours(name, local=False) for name in ("10.0.0.1", "dashboard", "evil.example")]
        [True, True, False]
        >>> [may_be_ours(name, local=True) for name in ("localhost", "10.0.0.1", "dashboard")]
        [True, False, False]
    """
    if local:
        return name in LOOPBACK
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return bool(name) and ("." not in name or name.endswith(_PRIVATE_DOMAINS))
    return True


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
