"""The token and the authorities with which processes on other machines reach the gateway."""

from __future__ import annotations

import contextlib
import ctypes
import os
import ssl
from pathlib import Path

from wallaroo.errors import UsageError, reason_of

TOKEN_VARIABLE = "WALLAROO_GATEWAY_TOKEN"
"""Environment variable with the token; the runtime itself sets none."""
TOKEN_FILE_VARIABLE = "WALLAROO_GATEWAY_TOKEN_FILE"
"""Environment variable with the name of a file with the token, if such a file is mounted."""
AUTHORITIES_VARIABLE = "WALLAROO_GATEWAY_CA_FILE"
"""Environment variable with the name of a PEM file of authorities, one of which must have issued
the gateway's certificate. If it is set, a gateway on another machine is reached by TLS only."""
_MIN_TOKEN_BYTES = 16


def read_token(file: Path) -> str:
    """The token in *file*, without white space around it.

    Raises:
        UsageError: It cannot be read, or is too short to be secret.
    """
    try:
        token = file.read_text("ascii").strip()
    except (OSError, UnicodeError) as error:
        msg = f"the token file {file} cannot be read: {reason_of(error)}"
        raise UsageError(msg) from error
    if len(token) < _MIN_TOKEN_BYTES:
        msg = (
            f"the token in {file} has {len(token)} characters; "
            f"at least {_MIN_TOKEN_BYTES} are required"
        )
        raise UsageError(msg)
    return token


def token_here() -> str | None:
    """The token in this process's environment, if any.

    Raises:
        UsageError: The environment names a file that cannot be read.
    """
    if file := os.environ.get(TOKEN_FILE_VARIABLE):
        return read_token(Path(file))
    return os.environ.get(TOKEN_VARIABLE) or None


def take_token() -> str | None:
    """Take the token out of this process's environment, which user code and its processes see.

    Returns:
        The token, if there was one.

    Raises:
        UsageError: The environment names a file that cannot be read.
    """
    token = token_here()
    forget_token()
    return token


def forget_token() -> None:
    """Delete the token from this process's environment."""
    for name in (TOKEN_VARIABLE, TOKEN_FILE_VARIABLE):
        _erase(name)
        os.environ.pop(name, None)


def hide_token() -> None:
    """Leave the token to forks alone: `/proc/PID/environ` shows what a process started with."""
    for name in (TOKEN_VARIABLE, TOKEN_FILE_VARIABLE):
        if (value := os.environ.get(name)) is not None:
            _erase(name)
            os.environ[name] = value  # in memory that is not shown


def _erase(name: str) -> None:
    """Overwrite the value of a variable, which to delete would only unlink."""
    with contextlib.suppress(OSError, AttributeError):  # no C library of this kind
        library = ctypes.CDLL(None)
        find = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(("getenv", library))
        value = os.environ.get(name)
        if value and (address := find(name.encode())):
            ctypes.memset(address, ord("*"), len(os.fsencode(value)))


def trusting_here() -> ssl.SSLContext | None:
    """The context of a client that trusts the authorities in this process's environment, if any.

    Raises:
        UsageError: The environment names a file that cannot be read.
    """
    file = os.environ.get(AUTHORITIES_VARIABLE)
    if not file:
        return None
    try:
        authorities = Path(file).read_text("ascii")
    except (OSError, UnicodeError) as error:
        msg = f"the authorities of the gateway in {file} cannot be read: {reason_of(error)}"
        raise UsageError(msg) from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=authorities)
    except ssl.SSLError as error:
        msg = f"the authorities of the gateway in {file} cannot be used: {error.reason or error}"
        raise UsageError(msg) from error
    return context
