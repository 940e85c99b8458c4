"""Explains why an address cannot be used, and what to do about it."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

_REMEDIES = {
    errno.EADDRINUSE: (
        "choose another address with {option}, or stop the process that is using it"
    ),
    errno.EADDRNOTAVAIL: "use an address of this machine for {option}, or 0.0.0.0 for all",
    errno.EACCES: "choose a port above 1023 with {option}, or grant this process the permission",
}
MAX_PORT = 65_535
_REMEDY = "choose another address with {option}"


def unresolved(error: BaseException, host: str, option: str) -> str | None:
    """Return a message if *error* means that *host* cannot be resolved; None otherwise.

    Example:
        >>> unresolved(socket.gaierror(-2, "Name or service not known"), "nosuch", "--in")
        "the host 'nosuch' cannot be resolved: correct it in --in, or use an IP address"
        >>> unresolved(ConnectionRefusedError(), "localhost", "--in")
    """
    # `socket.create_server` replaces the resolver's error by one of another class
    raised = (error, error.__context__)
    if not any(isinstance(one, (socket.gaierror, UnicodeError)) for one in raised):
        return None
    return f"the host {host!r} cannot be resolved: correct it in {option}, or use an IP address"


def why_not_bound(error: Exception, host: str, option: str) -> str:
    """Explain why an address of *host*, set by *option*, cannot be bound, and what to do.

    Example:
        >>> why_not_bound(OSError(errno.ENODEV, ""), "127.0.0.1", "--in")
        'No such device; choose another address with --in'
    """
    if (message := unresolved(error, host, option)) is not None:
        return message
    number = getattr(error, "errno", None) or 0
    reason = os.strerror(number) if number > 0 else str(error)
    return f"{reason}; {_REMEDIES.get(number, _REMEDY).format(option=option)}"


def listening_socket(host: str, port: int, backlog: int | None = None) -> socket.socket:
    """Return a socket that listens on *host*, an IPv6 address if it has a colon, and *port*.

    Args:
        host: A name or an address of this machine.
        port: The port; 0 lets the system choose.
        backlog: Connections that may wait to be accepted; None for the system's default.

    Raises:
        OSError: It cannot be bound (see `why_not_bound`).
        UnicodeError: The host is not a name.

    Example:
        >>> with listening_socket("127.0.0.1", 0) as listener:
        ...     listener.getsockname()[0]
        '127.0.0.1'
    """
    listener = bound_socket(host, port)
    try:
        # for connections, too: else the second part of an answer waits 40 ms for the first one
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.listen(*() if backlog is None else (backlog,))
    except OSError:
        listener.close()
        raise
    return listener


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound like one of `listening_socket`, and does not listen yet.

    Raises:
        OSError: It cannot be bound.
        UnicodeError: The host is not a name.

    Example:
        >>> with bound_socket("127.0.0.1", 0) as bound:
        ...     socket.create_connection(bound.getsockname())
        Traceback (most recent call last):
        ConnectionRefusedError: [Errno 111] Connection refused
    """
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
    except (OSError, UnicodeError):
        bound.close()
        raise
    return bound


def listening_at(path: Path, backlog: int) -> socket.socket:
    """Return a socket that listens at *path*, in the place of one that a killed process has left.

    Args:
        path: The path, in a directory that only this user can enter.
        backlog: Connections that may wait to be accepted.

    Raises:
        OSError: It cannot be bound.
    """
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    return listener
