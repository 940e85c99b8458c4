"""How messages on TCP are told apart, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import wallaroo
from tests.applications.counting import decode
from tests.resolution.declared import begun, problems, this_line
from wallaroo.connectors.tcp.resolve import TCPSource
from wallaroo.resolution.application import resolve
from wallaroo.wire.framing import Framing
from wallaroo.wire.unframed import Delimited, FixedLength

HERE = "test_resolve.py"
unchecked: Any = wallaroo
"""The API as an author has it who uses no type checker."""


class Decoding:
    def decode(self, bs: bytes) -> str:
        return bs.decode()


@pytest.mark.parametrize("name", [(), ("name",)])
@pytest.mark.parametrize("decoder", [decode, bytes.decode, Decoding()])
def test_a_port_for_messages_without_headers_says_how_they_end(decoder: Any, name: Any) -> None:
    due = {
        "lines": Delimited(b"\n", 9, ends_with_stream=True),
        b"\0": Delimited(b"\0", 9),
        7: FixedLength(7, 9),
    }
    for framing, unframed in due.items():
        address = (*name, "h", 0)
        config = unchecked.TCPSourceConfig(*address, decoder, framing=framing, max_size=9)
        (source,) = resolve(begun(config).done().build()).sources
        assert isinstance(source, TCPSource)
        assert source.unframed == unframed
        assert source.at_port(5).unframed == unframed
        assert source.framing == Framing(4, ">I", 9)
        assert callable(source.decode)


@pytest.mark.parametrize(
    ("framing", "told"),
    [
        ("line", "'line'; expected 'frames', 'lines', the bytes that end each message, or"),
        (True, "True; expected 'frames'"),
        (b"", "b''; a message ends with one byte at least"),
        (0, "0; a message has 1 to 9 bytes"),
        (10, "10; a message has 1 to 9 bytes"),
    ],
)
def test_a_port_with_impossible_framing_is_told_with_its_line(framing: Any, told: str) -> None:
    at = this_line() + 1
    config = unchecked.TCPSourceConfig("n", "h", 0, bytes.decode, framing=framing, max_size=9)
    problem = problems(begun(config).done())[0]
    assert problem.startswith(f"{HERE}:{at}: pipeline 'lines': framing is {told}")
