"""Addresses on the command line that an application does not use: nothing else would say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wallaroo.api.addresses import STANDARD, tcp_parse_input_addrs, tcp_parse_output_addrs
from wallaroo.errors import UsageError
from wallaroo.model.application import Application

_STREAM = f"{STANDARD}:0"


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
        used = {
            f"{getattr(end, 'host', '')}:{getattr(end, 'port', '')}"
            for end in ends
            if not end.is_standard
        }
        try:
            given = [f"{address.host}:{address.port}" for address in parse(args)]
            surplus = given.count(_STREAM) - sum(end.is_standard for end in ends)
            unused = (
                *(address for address in given if address not in used and address != _STREAM),
                *[STANDARD] * surplus,
            )
        except UsageError:
            unused = (args[args.index(option) + 1],)
        if unused:
            advice = f"take them from {parse.__name__}(args) in application_setup"
            yield Unused(option, unused, advice)
