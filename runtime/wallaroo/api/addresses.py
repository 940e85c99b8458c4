"""The addresses on the command line, as `application_setup(args)` reads them.

An address is `HOST:PORT` or `NAME@HOST:PORT`; several are separated by commas.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from wallaroo.errors import UsageError

_MAX_PORT = 65_535
_UNPACK = dis.opmap["UNPACK_SEQUENCE"]
_TARGETS_WITH_NAME = 3


class Address(tuple[str, str]):
    """A pair of host and port, both text as upstream gave them, that also knows its name.

    The generations of Wallaroo unpack an address differently, into host and port or into name, host
    and port, so it unpacks into either, with an empty name where none was given.

    Attributes:
        name: What stood before the `@`, or None.

    Example:
        >>> address = parse_address("Orders@127.0.0.1:7010", "--in")
        >>> host, port = address
        >>> name, host, port = address
        >>> name, host, port
        ('Orders', '127.0.0.1', '7010')
    """

    name: str | None

    def __new__(cls, host: str, port: str, name: str | None = None) -> Address:
        """Make the pair."""
        self = super().__new__(cls, (host, port))
        self.name = name
        return self

    def __iter__(self) -> Iterator[str]:
        """Host and port, behind the name where three are asked for."""
        pair = super().__iter__()
        three = _targets(sys._getframe(1)) == _TARGETS_WITH_NAME  # noqa: SLF001
        return iter((self.name or "", *pair)) if three else pair


def _targets(frame: FrameType) -> int | None:
    """Into how many variables *frame* unpacks something at this moment; None if it does not."""
    instruction, argument = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2]
    return argument if instruction == _UNPACK else None


def parse_address(text: str, option: str) -> Address:
    """Read one address out of *text*, which was given with *option*.

    Raises:
        UsageError: *text* is no address.

    Example:
        >>> parse_address("[::1]:7010", "--in")
        ('::1', '7010')
    """
    name, at, rest = text.strip().rpartition("@")
    host, _, port = rest.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not host or not (port.isascii() and port.isdigit()):
        msg = f"{option}: {text!r} is not an address; write HOST:PORT, for example 127.0.0.1:7010"
        raise UsageError(msg)
    if not _may_be_host(host):
        msg = f"{option}: {text!r} has no usable host: the labels of a name have 1 to 63 bytes"
        raise UsageError(msg)
    if len(port) > len(str(_MAX_PORT)) or int(port) > _MAX_PORT:
        msg = f"{option}: {text!r} has a port over {_MAX_PORT}"
        raise UsageError(msg)
    return Address(host, port, name if at else None)


def _may_be_host(host: str) -> bool:
    """Whether *host* can be looked up; sockets raise what is no OSError where it cannot."""
    try:
        return b"\0" not in host.encode("idna")
    except UnicodeError:
        return False


def tcp_parse_input_addrs(args: Sequence[str]) -> list[Address]:
    """The addresses to listen on, in the order the application takes them (`--in` or `-i`).

    Raises:
        UsageError: The option is missing or an address in it is malformed.

    Example:
        >>> tcp_parse_input_addrs(["--in", "127.0.0.1:7010,127.0.0.1:7011"])
        [('127.0.0.1', '7010'), ('127.0.0.1', '7011')]
    """
    return _addresses(args, ("--in", "-i"))


def tcp_parse_output_addrs(args: Sequence[str]) -> list[Address]:
    """The addresses to send outputs to, in the order the application takes them (`--out` or `-o`).

    Raises:
        UsageError: The option is missing or an address in it is malformed.

    Example:
        >>> tcp_parse_output_addrs(["--out=127.0.0.1:7002"])
        [('127.0.0.1', '7002')]
    """
    return _addresses(args, ("--out", "-o"))


def _addresses(args: Sequence[str], options: tuple[str, str]) -> _Addresses:
    for place, arg in enumerate(args):
        option, equals, value = arg.partition("=")
        if option not in options:
            continue
        if not equals:
            value = args[place + 1] if place + 1 < len(args) else ""
        return _Addresses(options[0], [parse_address(a, options[0]) for a in value.split(",")])
    option = options[0]
    msg = f"{option} is missing: the application asks for its addresses; give {option} HOST:PORT"
    raise UsageError(msg)


class _Addresses(list[Address]):
    """A list whose IndexError says which address is missing, and from which option."""

    def __init__(self, option: str, addresses: Sequence[Address]) -> None:
        super().__init__(addresses)
        self._option = option

    def __getitem__(self, index: Any) -> Any:
        try:
            return super().__getitem__(index)
        except IndexError:
            msg = (
                f"{self._option} has {len(self)} address(es), and the application takes "
                f"address number {index + 1}; give them separated by commas"
            )
            raise UsageError(msg) from None
