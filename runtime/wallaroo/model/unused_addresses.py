"""Addresses on the command line that an application does not use: nothing else would say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wallaroo.api.addresses import tcp_parse_input_addrs, tcp_parse_output_addrs
from wallaroo.errors import UsageError
from wallaroo.model.application import Application


def unused_addresses(application: Application, args: Sequence[str]) -> dict[str, str]:
    """The options of *args* none of whose addresses is one of the application's.

    Returns:
        What to write in `application_setup`, by option.
    """
    ends: dict[str, Sequence[Any]] = {"--in": application.sources, "--out": application.sinks}
    parse = {"--in": tcp_parse_input_addrs, "--out": tcp_parse_output_addrs}
    found = {}
    for option, of_option in ends.items():
        if option not in args:
            continue
        try:
            given = {(address.host, address.port) for address in parse[option](args)}
        except UsageError:
            given = set()
        if given.isdisjoint(
            (getattr(end, "host", None), str(getattr(end, "port", ""))) for end in of_option
        ):
            found[option] = f"take them from {parse[option].__name__}(args) in application_setup"
    return found
