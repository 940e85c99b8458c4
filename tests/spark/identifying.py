"""Gives each message an identity and times, calls a service with it, and kills its worker once."""

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path
from typing import Any

import wallaroo

Message = tuple[str, str, str]


def application_setup(args: list[str]) -> Any:
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    directory = Path(args[args.index("--calls") + 1])

    @wallaroo.computation_async(name="call", concurrency=4)
    async def call(message: Message) -> Message:
        """Call a service, which notes the calls, with an identity."""
        with (directory / "calls").open("a") as calls:
            calls.write(f"{message[0]} {message[1]}\n")
        if message[0].startswith("kill"):
            try:
                (directory / message[0]).touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return message

    steps = (
        wallaroo.source("Identify", wallaroo.TCPSourceConfig(in_host, in_port, decode))
        .to(identify)
        .to(call)
        .key_by(shard)
        .to(count)
    )
    sink = wallaroo.TCPSinkConfig(out_host, out_port, encode)
    return wallaroo.build_application("Identifying", steps.to_sink(sink))


def new_id() -> str:
    return str(uuid.UUID(int=wallaroo.rng().getrandbits(128), version=4))


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> str:
    return payload.decode()


@wallaroo.computation(name="identify")
def identify(text: str) -> Message:
    return text, new_id(), wallaroo.now().isoformat()


@wallaroo.key_extractor
def shard(_message: Message) -> int:
    return wallaroo.rng().randrange(16)


class Shard:
    def __init__(self) -> None:
        self.created, self.id = wallaroo.now().isoformat(), new_id()
        self.count = 0
        self.sample = ""


def reminded(_name: str, shard: Shard, _timers: wallaroo.Timers) -> tuple[Any, ...]:
    shard.sample = new_id()
    return "reminded", shard.id, wallaroo.now().isoformat(), shard.sample


@wallaroo.state_computation(name="count", state=Shard, on_timer=reminded)
def count(message: Message, shard: Shard, timers: wallaroo.Timers) -> tuple[Any, ...]:
    shard.count += 1
    if wallaroo.rng().random() < 0.1:
        shard.sample = message[0]
    timers.set_after(wallaroo.milliseconds(50))
    return (*message, shard.created, shard.count, new_id(), wallaroo.now().isoformat())


@wallaroo.encoder
def encode(message: tuple[Any, ...]) -> str:
    return f"{' '.join(map(str, message))} {new_id()} {wallaroo.now().isoformat()}\n"
