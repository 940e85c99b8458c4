"""Addresses on the command line that an application does not use: nothing else would say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wallaroo.api.addresses import STANDARD, tcp_parse_input_addrs, tcp_parse_output_addrs
from wallaroo.errors import UsageError
from wallaroo.model.application import Application


@dataclass(frozen=True)
class Unused:
    """Addresses of one option that no source, or no sink, has."""

    option: str
    addresses: tuple[str, ...]
    """`HOST:PORT` or `-`, or the whole value of an option that is not one."""
    advice: str
    """How `application_setup` would use them."""


def unused_addresses(application: Application, args: Sequence[str]) -> Iterator[Unused]:
    """Yield the addresses of `--in` and `--out` in *args* that *application* does not use."""
    of_options: dict[str, tuple[Any, Sequence[Any]]] = {
        "--in": (tcp_parse_input_addrs, application.sources),
        "--out": (tcp_parse_output_addrs, application.sinks),
    }
    for option, (parse, ends) in of_options.items():
        if option not in args:
            continue
        used = {_text(getattr(end, "host", ""), getattr(end, "port", "")) for end in ends}
        if any(end.is_standard for end in ends):
            used.add(STANDARD)
        try:
            given = (_text(address.host, address.port) for address in parse(args))
            unused = tuple(address for address in given if address not in used)
        except UsageError:
            unused = (args[args.index(option) + 1],)
        if unused:
            advice = f"take them from {parse.__name__}(args) in application_setup"
            yield Unused(option, unused, advice)


def _text(host: str, port: object) -> str:
    return STANDARD if host == STANDARD else f"{host}:{port}"
