"""Waits 5 ms for each message: for measuring what awaiting many calls at a time costs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import wallaroo

CALL_S = 0.005
"""Seconds that a call waits."""
CONCURRENCY = 1_000
"""Calls at a time."""
TIMEOUT_S = 30
"""Time limit of a call, in seconds."""


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> str:
    """From payload to text."""
    return payload.decode()


@wallaroo.computation_async(
    name="ask", concurrency=CONCURRENCY, timeout=wallaroo.seconds(TIMEOUT_S)
)
async def ask(text: str) -> str:
    """The same text, later."""
    await asyncio.sleep(CALL_S)
    return text


@wallaroo.encoder
def encode(text: str) -> bytes:
    """A line."""
    return text.encode() + b"\n"


def application_setup(args: Sequence[str]) -> wallaroo.DeclaredApplication:
    """One pipeline."""
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    source = wallaroo.source("in", wallaroo.TCPSourceConfig(in_host, in_port, decode))
    sink = wallaroo.TCPSinkConfig(out_host, out_port, encode)
    return wallaroo.build_application("asking", source.to(ask).to_sink(sink))
