"""Why an address cannot be used, and what to do about it."""

from __future__ import annotations

import errno
import os
import socket

_REMEDIES = {
    errno.EADDRINUSE: "choose another address with {option}, or stop what listens there",
    errno.EADDRNOTAVAIL: "give an address of this machine with {option}, or 0.0.0.0 for all",
    errno.EACCES: "choose a port from 1024 on with {option}, or give this process the right",
}
_REMEDY = "choose another address with {option}"


def unresolved(error: BaseException, host: str, option: str) -> str | None:
    """What to do where *error* comes from a *host* that cannot be resolved; None where it does not.

    Example:
        >>> unresolved(socket.gaierror(-2, "Name or service not known"), "nosuch", "--in")
        "the host 'nosuch' cannot be resolved: mend it in --in, or give an IP address"
        >>> unresolved(ConnectionRefusedError(), "localhost", "--in")
    """
    # `socket.create_server` raises an error of another class in the place of the resolver's
    raised = (error, error.__context__)
    if not any(isinstance(one, (socket.gaierror, UnicodeError)) for one in raised):
        return None
    return f"the host {host!r} cannot be resolved: mend it in {option}, or give an IP address"


def why_not_bound(error: Exception, host: str, option: str) -> str:
    """Why an address of *host*, given with *option*, could not be bound, and what to do.

    Example:
        >>> why_not_bound(OSError(errno.EADDRINUSE, ""), "127.0.0.1", "--in")
        'Address already in use; choose another address with --in, or stop what listens there'
    """
    if (told := unresolved(error, host, option)) is not None:
        return told
    number = getattr(error, "errno", None) or 0
    reason = os.strerror(number) if number > 0 else str(error)
    return f"{reason}; {_REMEDIES.get(number, _REMEDY).format(option=option)}"
