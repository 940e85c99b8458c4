"""Addresses in configurations, and on the command line as `application_setup(args)` parses it.

An address is `HOST:PORT` or `NAME@HOST:PORT`; several are separated by commas. On the command line,
`-` stands for standard input or standard output.
"""

from __future__ import annotations

import contextlib
import dis
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from types import FrameType
from typing import Any

from wallaroo.errors import UsageError, WallarooParameterError
from wallaroo.system.binding import MAX_PORT

STANDARD = "-"
"""The host of a source that reads standard input, and of a sink that prints."""
_UNPACK = dis.opmap["UNPACK_SEQUENCE"]
_TARGETS = 2
_TARGETS_WITH_NAME = 3
_PLACEHOLDERS = ",".join(["127.0.0.1:0"] * 16)
_are_optional: ContextVar[bool] = ContextVar("_are_optional", default=False)


@contextlib.contextmanager
def optional_addresses() -> Iterator[None]:
    """Inside the block, an option for addresses that is missing has sixteen placeholders.

    For what loads an application and does not run it. The arguments themselves stay what the user
    gave: an application may parse them strictly.

    Example:
        >>> with optional_addresses():
        ...     host, port = tcp_parse_input_addrs(["--threshold", "5"])[15]
        >>> host, port
        ('127.0.0.1', '0')
    """
    token = _are_optional.set(True)
    try:
        yield
    finally:
        _are_optional.reset(token)


class Address(tuple[str, str]):
    """Host and port, preceded by the name if there is one; all are strings, as in Wallaroo.

    Some Wallaroo versions unpack an address into host and port, others into name, host and port.
    Both work here, whether or not the address has a name. In every other use (indexing, `len`,
    `tuple`, `f(*address)`) an address has three parts if it has a name and two otherwise.

    Attributes:
        name: The part before the `@`, or None.
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
        """Create the address."""
        parts: Any = (host, port) if name is None else (name, host, port)
        self = super().__new__(cls, parts)
        self.name, self.host, self.port = name, host, port
        return self

    def __iter__(self) -> Iterator[str]:
        """Iterate over as many parts as the caller unpacks, or over all of them."""
        targets = _targets(sys._getframe(1))  # noqa: SLF001
        if targets == _TARGETS_WITH_NAME:
            return iter((self.name or "", self.host, self.port))
        return iter((self.host, self.port)) if targets == _TARGETS else super().__iter__()

    def __getitem__(self, index: Any) -> Any:
        """Return the part at *index*.

        Raises:
            UsageError: The application reads three parts, and the address has no name.
        """
        if index == _TARGETS and self.name is None:
            msg = (
                f"the address {self.host}:{self.port} has no name, but the application uses "
                f"names; write NAME@{self.host}:{self.port}"
            )
            raise UsageError(msg)
        return super().__getitem__(index)

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return the arguments that recreate the address, for copies and pickles."""
        return self.host, self.port, self.name


def _targets(frame: FrameType) -> int | None:
    """Return the number of variables that *frame* is unpacking into; None if it is not."""
    instruction, argument = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2]
    return argument if instruction == _UNPACK else None


def parse_address(text: str, option: str) -> Address:
    """Parse *text*, the value of the option *option*, as one address.

    Raises:
        UsageError: *text* is not a valid address.

    Example:
        >>> parse_address("[::1]:7010", "--in")
        ('::1', '7010')
    """
    name, at, rest = text.strip().rpartition("@")
    host, _, port = rest.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if host in {"", STANDARD} or not (port.isascii() and port.isdigit()):
        msg = f"{option}: {text!r} is not an address; write HOST:PORT, for example 127.0.0.1:7010"
        raise UsageError(msg)
    if not _is_valid_host(host):
        msg = f"{option}: {text!r} has an invalid host name: each label must have 1 to 63 bytes"
        raise UsageError(msg)
    if len(port) > len(str(MAX_PORT)) or int(port) > MAX_PORT:
        msg = f"{option}: {text!r} has an invalid port; the maximum is {MAX_PORT}"
        raise UsageError(msg)
    return Address(host, port, name if at else None)


def _is_valid_host(host: str) -> bool:
    """Whether sockets accept *host*; for others they raise errors that are not OSErrors."""
    try:
        return b"\0" not in host.encode("idna")
    except UnicodeError:
        return False


def host_of(host: Any, *, standard: bool = False) -> str:
    """Return *host*.

    Args:
        host: The host.
        standard: Whether it may stand for standard input or standard output.

    Raises:
        TypeError: It is not text.
        WallarooParameterError: It stands for standard input or output, and may not.
    """
    if not isinstance(host, str):
        msg = f"the host is {host!r}; expected a name or an address, such as '127.0.0.1'"
        raise TypeError(msg)
    if host == STANDARD and not standard:
        msg = (
            "the host is '-', which only a TCPSourceConfig (for standard input) and a "
            "TCPSinkConfig (for standard output) can have; expected a name or an address"
        )
        raise WallarooParameterError(msg)
    return host


def port_of(port: Any) -> int:
    """Return *port* as a number.

    Raises:
        TypeError: *port* is neither an integer nor a string of digits.
        WallarooParameterError: *port* is not a port number.
    """
    is_text = isinstance(port, str) and port.isascii() and port.isdigit()
    if not is_text and (isinstance(port, bool) or not isinstance(port, int)):
        msg = f"the port is {port!r}; expected a number, such as 7010"
        raise TypeError(msg)
    if not 0 <= int(port) <= MAX_PORT:
        msg = f"the port is {port}; expected a number from 0 to {MAX_PORT}"
        raise WallarooParameterError(msg)
    return int(port)


def tcp_parse_input_addrs(args: Sequence[str]) -> list[Address]:
    """Return the addresses to listen on, in the order of the option `--in` (`-i`).

    Raises:
        UsageError: The option is missing, or one of its addresses is invalid.

    Example:
        >>> tcp_parse_input_addrs(["--in", "127.0.0.1:7010,127.0.0.1:7011"])
        [('127.0.0.1', '7010'), ('127.0.0.1', '7011')]
        >>> tcp_parse_input_addrs(["--in", "-"])  # a source there reads standard input
        [('-', '0')]
    """
    return _addresses(args, ("--in", "-i"))


def tcp_parse_output_addrs(args: Sequence[str]) -> list[Address]:
    """Return the addresses to send outputs to, in the order of the option `--out` (`-o`).

    They have two parts; a name is ignored.

    Raises:
        UsageError: The option is missing, or one of its addresses is invalid.

    Example:
        >>> tcp_parse_output_addrs(["--out=127.0.0.1:7002"])
        [('127.0.0.1', '7002')]
        >>> tcp_parse_output_addrs(["--out", "-"])  # a sink there prints
        [('-', '0')]
    """
    named = _addresses(args, ("--out", "-o"))
    return _Addresses("--out", [Address(address.host, address.port) for address in named])


def last_value(args: Sequence[str], *options: str) -> str | None:
    """The value of the last of *options* in *args*, which overrides earlier ones; None for none.

    Example:
        >>> last_value(["--in", "a:1", "--in=b:2"], "--in", "-i")
        'b:2'
    """
    found = None
    for index, arg in enumerate(args):
        option, equals, value = arg.partition("=")
        if option in options:
            found = value if equals else "".join(args[index + 1 : index + 2])
    return found


def _addresses(args: Sequence[str], options: tuple[str, str]) -> _Addresses:
    """Return the addresses of the last of *options* in *args*."""
    addresses, option = last_value(args, *options), options[0]
    if addresses is None and _are_optional.get():
        addresses = _PLACEHOLDERS
    if addresses is None:
        stream = "standard input" if option == "--in" else "standard output"
        msg = (
            f"{option} is missing: the application requires it; add {option} HOST:PORT, or "
            f"{option} - for {stream}"
        )
        raise UsageError(msg)
    return _Addresses(option, [_parse(a, option) for a in addresses.split(",")])


def _parse(text: str, option: str) -> Address:
    name, at, rest = text.strip().rpartition("@")
    if rest == STANDARD:
        return Address(STANDARD, "0", name if at else None)
    return parse_address(text, option)


class _Addresses(list[Address]):
    """A list that reports a missing address together with its option."""

    def __init__(self, option: str, addresses: Sequence[Address]) -> None:
        super().__init__(addresses)
        self._option = option

    def __getitem__(self, index: Any) -> Any:
        try:
            return super().__getitem__(index)
        except IndexError:
            msg = (
                f"{self._option} has {len(self)} address{'es' if len(self) != 1 else ''}, but the "
                f"application uses address number {index + 1}; separate addresses with commas"
            )
            raise UsageError(msg) from None
