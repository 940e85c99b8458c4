"""An application whose functions print and log; one line is a mistake."""

from __future__ import annotations

import logging
from typing import Any

import wallaroo

log = logging.getLogger("talking")


def application_setup(args: list[str]) -> Any:
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    builder = wallaroo.ApplicationBuilder("Talking")
    builder.new_pipeline("Talk", wallaroo.TCPSourceConfig(in_host, in_port, decode))
    builder.to(shout)
    builder.to_state_partition(count, Total, "totals", itself)
    builder.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode))
    return builder.build()


class Total:
    def __init__(self) -> None:
        self.messages = 0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> str:
    return payload.decode()


@wallaroo.computation(name="shout")
def shout(text: str) -> str:
    print("shouting", text)
    if text == "bad":
        raise ValueError(text)
    return text.upper()


@wallaroo.partition
def itself(text: str) -> str:
    return text


@wallaroo.state_computation(name="count")
def count(text: str, total: Total) -> tuple[str, bool]:
    total.messages += 1
    log.warning("%s came", text)
    return f"{text} {total.messages}\n", True


@wallaroo.encoder
def encode(line: str) -> bytes:
    return line.encode()
