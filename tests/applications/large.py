"""Keeps entities of any size: `key MiB` adds as much to the entity of the key.

A worker runs it from a copy in a test's directory, so it stands alone.
"""

from __future__ import annotations

import random
import zlib
from typing import Any

import wallaroo

MIB = 1024**2


def application_setup(args: list[str]) -> Any:
    """Outputs: `key MiB checksum` of the entity."""
    host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    texts = wallaroo.source("Texts", wallaroo.TCPSourceConfig("Texts", host, port, decode))
    told = texts.key_by(key).to(add)
    return wallaroo.build_application(
        "Large", told.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode))
    )


class Store:
    """The state of a key."""

    def __init__(self) -> None:
        self.content = b""


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> bytes:
    return payload


@wallaroo.key_extractor
def key(message: bytes) -> str:
    return message.split(b" ", 1)[0].decode()


@wallaroo.state_computation(name="add", state=Store)
def add(message: bytes, store: Store) -> str:
    """What follows the number only makes the message larger."""
    name, mib, *_ = message.split(b" ", 2)
    store.content += filling(name.decode(), len(store.content), int(mib))
    return told(name.decode(), store.content)


def filling(name: str, start: int, mib: int) -> bytes:
    """Bytes that cannot be compressed."""
    return random.Random(f"{name} {start}").randbytes(mib * MIB)


def told(name: str, content: bytes) -> str:
    return f"{name} {len(content) // MIB} {zlib.crc32(content)}\n"


@wallaroo.encoder
def encode(line: str) -> str:
    return line
