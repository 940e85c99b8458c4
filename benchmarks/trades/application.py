"""Lets one trade in ten through, from JSON to JSON: for measuring what decoding costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import wallaroo
from wallaroo.codecs import json_decoder, json_encoder


@dataclass
class Trade:
    """What is decoded."""

    number: int
    symbol: str
    venue: str
    side: str
    price: float
    count: int
    at: str
    flags: list[str]


decode = json_decoder(Trade)
encode = json_encoder(framing="lines")


@wallaroo.computation(name="large")
def large(trade: Trade) -> Trade | None:
    """The trade if it is a large one."""
    return trade if trade.count >= 900 else None


def application_setup(args: Sequence[str]) -> wallaroo.DeclaredApplication:
    """One pipeline, from TCP or, if the arguments say so, from HTTP."""
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    kind = wallaroo.HTTPSourceConfig if "http" in args else wallaroo.TCPSourceConfig
    source = wallaroo.source("in", kind(in_host, in_port, decode))
    sink = wallaroo.TCPSinkConfig(out_host, out_port, encode)
    return wallaroo.build_application("trades", source.to(large).to_sink(sink))
