"""TCP sources as each generation of Wallaroo wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import wallaroo
from wallaroo.api.addresses import parse_address

unchecked: Any = wallaroo
"""The API as an author has it who uses no type checker."""


@wallaroo.decoder(header_length=4, length_fmt=">I")
def text(bs: bytes) -> str:
    return bs.decode()


HOST: dict[str, Any] = {"host": "h", "port": "1", "decoder": text}


@pytest.mark.parametrize(
    ("config", "name", "max_size"),
    [
        (wallaroo.TCPSourceConfig("h", "1", text), "", None),
        (wallaroo.TCPSourceConfig("h", 1, text, 10), "", None),
        (wallaroo.TCPSourceConfig("h", 1, text, parallelism=4), "", None),
        (wallaroo.TCPSourceConfig("h", 1, decoder=text), "", None),
        (wallaroo.TCPSourceConfig(**HOST), "", None),
        (wallaroo.TCPSourceConfig("n", "h", "1", text), "n", None),
        (wallaroo.TCPSourceConfig("n", "h", 1, decoder=text), "n", None),
        (wallaroo.TCPSourceConfig("n", "h", "1", text, True, 10, 99, 50), "n", 99),
        (wallaroo.TCPSourceConfig("n", "h", "1", text, valid=False, max_size=99), "n", 99),
        (wallaroo.TCPSourceConfig(name="n", **HOST), "n", None),
    ],
)
def test_a_tcp_source_is_written_with_or_without_a_name(
    config: wallaroo.TCPSourceConfig[str], name: str, max_size: int | None
) -> None:
    assert (config.host, config.port, config.decoder) == ("h", 1, text)
    assert (config.name, config.max_size) == (name, max_size)
    assert Path(config.place.file).name == "test_config.py"


@pytest.mark.parametrize("address", ["h:1", "Orders@h:1"])
def test_an_address_can_be_spread_into_a_tcp_source(address: str) -> None:
    config = wallaroo.TCPSourceConfig(*parse_address(address, "--in"), text)
    assert (config.host, config.port, config.decoder) == ("h", 1, text)


@pytest.mark.parametrize("args", [(), ("h",), ("h", 1), ("n", "h", 1), (*range(9), "too many")])
def test_a_tcp_source_of_too_few_or_too_many_parts_is_refused(args: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        unchecked.TCPSourceConfig(*args)
