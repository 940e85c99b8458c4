"""Messages that are text, behind their length."""

from __future__ import annotations

import wallaroo


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> str:
    return payload.decode()


@wallaroo.encoder
def encode(message: str) -> bytes:
    return message.encode()
