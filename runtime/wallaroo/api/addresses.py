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
_TARGETS = 2
_TARGETS_WITH_NAME = 3


class Address(tuple[str, str]):
    """Host and port, after the name where one was given; all of them text, as upstream had them.

    The generations of Wallaroo unpack an address differently, into host and port or into name, host
    and port, so it unpacks into either, whether it has a name or not. Wherever it is not unpacked
    into two or three variables (by index, `len`, `tuple`, `f(*address)`) it has the three parts of
    the last Wallaroo where a name was given, and two where none was.

    Attributes:
        name: What stood before the `@`, or None.
        host: Host or IP address.
        port: Port, as text.

    Example:
        >>> address = parse_address("Orders@127.0.0.1:7010", "--in")
        >>> host, port = address
        >>> name, host, port = address
        >>> name, host, port
        ('Orders', '127.0.0.1', '7010')
        >>> address[0], len(address), len(parse_address("127.0.0.1:7010", "--in"))
        ('Orders', 3, 2)
    """

    name: str | None
    host: str
    port: str

    def __new__(cls, host: str, port: str, name: str | None = None) -> Address:
        """Make the address."""
        parts: Any = (host, port) if name is None else (name, host, port)
        self = super().__new__(cls, parts)
        self.name, self.host, self.port = name, host, port
        return self

    def __iter__(self) -> Iterator[str]:
        """As many parts as are asked for, or all of them."""
        targets = _targets(sys._getframe(1))  # noqa: SLF001
        if targets == _TARGETS_WITH_NAME:
            return iter((self.name or "", self.host, self.port))
        return iter((self.host, self.port)) if targets == _TARGETS else super().__iter__()

    def __getitem__(self, index: Any) -> Any:
        """The part at *index*; an error that says so where it would be there if there was a name.

        Raises:
            UsageError: The application wants three parts, and no name was given.
        """
        if index == _TARGETS and self.name is None:
            msg = (
                f"the address {self.host}:{self.port} has no name, and the application uses the "
                f"name of its addresses; write NAME@{self.host}:{self.port}"
            )
            raise UsageError(msg)
        return super().__getitem__(index)

    def __getnewargs__(self) -> tuple[Any, ...]:
        """What makes a copy."""
        return self.host, self.port, self.name


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

    They have two parts: a name in front of one means nothing.

    Raises:
        UsageError: The option is missing or an address in it is malformed.

    Example:
        >>> tcp_parse_output_addrs(["--out=127.0.0.1:7002"])
        [('127.0.0.1', '7002')]
    """
    named = _addresses(args, ("--out", "-o"))
    return _Addresses("--out", [Address(address.host, address.port) for address in named])


def _addresses(args: Sequence[str], options: tuple[str, str]) -> _Addresses:
    """The addresses of the last of *options* in *args*: as with most commands, the last counts."""
    given: str | None = None
    for place, arg in enumerate(args):
        option, equals, value = arg.partition("=")
        if option in options:
            given = value if equals else "".join(args[place + 1 : place + 2])
    option = options[0]
    if given is None:
        msg = (
            f"{option} is missing: the application asks for its addresses; give {option} HOST:PORT"
        )
        raise UsageError(msg)
    return _Addresses(option, [parse_address(a, option) for a in given.split(",")])


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
