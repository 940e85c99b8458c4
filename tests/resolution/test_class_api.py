"""Decoders of the first generation: headers that are plain integers, and those that are not."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

import wallaroo
from tests.helpers import framing_of
from wallaroo.errors import ApplicationError
from wallaroo.resolution.application import resolve
from wallaroo.resolution.class_api import computation_of
from wallaroo.wire.framing import Framing


def decoder(header_length: Any, payload_length: Callable[[bytes], Any]) -> Any:
    class Decoder:
        def header_length(self) -> Any:
            return header_length() if callable(header_length) else header_length

        def payload_length(self, bs: bytes) -> Any:
            return payload_length(bs)

        def decode(self, bs: bytes) -> bytes:
            return bs

    return Decoder()


def framing(header_length: Any, payload_length: Callable[[bytes], Any]) -> Framing:
    config = wallaroo.TCPSourceConfig("", 0, decoder(header_length, payload_length))
    builder = wallaroo.ApplicationBuilder("app").new_pipeline("lines", config).done()
    return framing_of(resolve(builder.build()).sources[0])


@pytest.mark.parametrize("layout", [">I", "<I", ">H", "<Q", "B", "b", ">i"])
def test_a_payload_length_that_unpacks_the_header_becomes_its_format(layout: str) -> None:
    found = framing(struct.calcsize(layout), lambda bs: struct.unpack(layout, bs)[0]).length_fmt
    assert isinstance(found, str)
    header = struct.pack(layout, 7)
    assert struct.unpack(found, header) == (7,)


@pytest.mark.parametrize(
    ("header_length", "payload_length", "stream", "payloads"),
    [
        (2, lambda bs: bs[0] * 2, b"\1?ab\2?abcd", [b"ab", b"abcd"]),
        (4, int, b"0002ab0000", [b"ab", b""]),
        (3, lambda bs: int.from_bytes(bs, "big"), b"\0\0\2ab", [b"ab"]),
        (1, lambda bs: max(bs[0], 1), b"\0a\2bc", [b"a", b"bc"]),
        (2, lambda bs: struct.unpack(">H", bs)[0] & 0x7FFF, b"\x80\1a", [b"a"]),
        (4, lambda bs: struct.unpack(">I", bs)[0] - 4, b"\0\0\0\5a", [b"a"]),
        (20, lambda bs: int(bs[12:]), b"length:     00000002ab", [b"ab"]),
    ],
)
def test_any_other_payload_length_is_called_for_each_header(
    header_length: int,
    payload_length: Callable[[bytes], int],
    stream: bytes,
    payloads: list[bytes],
) -> None:
    made = framing(header_length, payload_length)
    assert callable(made.length_fmt)
    assert made.scan(stream).end == len(stream)
    assert made.split(stream) == payloads


@pytest.mark.parametrize(
    ("header_length", "reason"),
    [
        (0, "header_length is 0; expected a number of bytes"),
        ("4", "header_length is '4'; expected a number of bytes"),
        (lambda: 1 // 0, "header_length raises ZeroDivisionError"),
    ],
)
def test_a_header_without_a_length_is_told_with_the_decoder(
    header_length: Any, reason: str
) -> None:
    with pytest.raises(
        ApplicationError, match=rf"test_class_api.py:\d+: pipeline 'lines': .*{reason}"
    ):
        framing(header_length, len)


class Fragile:
    """Whose attributes raise when they are looked for."""

    def name(self) -> str:
        return "fragile"

    @property
    def compute(self) -> Any:
        msg = "missing"
        raise KeyError(msg)


def test_an_attribute_that_raises_is_told_with_its_class() -> None:
    with pytest.raises(ValueError, match="attribute compute of Fragile raises KeyError: 'missing'"):
        computation_of(Fragile())
