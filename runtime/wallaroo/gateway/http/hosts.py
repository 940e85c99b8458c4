"""Names in the header Host by which no site of someone else can be called."""

from __future__ import annotations

import ipaddress

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
