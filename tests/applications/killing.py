"""Counts each message by itself; `kill` ends the process that counts it, `hang` keeps it busy.

`start` starts a process of its own, and writes its number to a file.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import wallaroo


class Seen:
    count = 0


@wallaroo.key_extractor
def key(message: str) -> str:
    return message


@wallaroo.state_computation(name="count", state=Seen)
def count(message: str, seen: Seen) -> str:
    if message == "kill":
        os._exit(3)
    if message.startswith("hang "):
        Path(message.removeprefix("hang ")).touch()
        time.sleep(3600)
    if message.startswith("start "):
        started = subprocess.Popen(
            ["sh", "-c", "sleep 3600 & echo $!; wait"], stdout=subprocess.PIPE
        )
        assert started.stdout is not None
        Path(message.removeprefix("start ")).write_bytes(started.stdout.readline())
    seen.count += 1
    return f"{message}{seen.count}"


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> str:
    return payload.decode()


@wallaroo.encoder
def encode(text: str) -> bytes:
    return len(text).to_bytes(4, "big") + text.encode()


def application_setup(args: list[str]) -> Any:
    (address,) = wallaroo.tcp_parse_input_addrs(args)
    source = wallaroo.source("in", wallaroo.TCPSourceConfig(*address, decode))
    sink = wallaroo.TCPSinkConfig(*wallaroo.tcp_parse_output_addrs(args)[0], encode)
    return wallaroo.build_application("Poison", source.key_by(key).to(count).to_sink(sink))
