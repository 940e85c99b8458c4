"""Asks a slow service about each message, before and after a state, and scores answers in batches.

Each call is noted in the file `calls` beside this one, with its process. A message `kill` ends the
process, one that begins with `bad` fails.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import wallaroo

CALLS = Path(__file__).parent / "calls"
CALL_S = 0.02
"""How long an answer takes."""


def application_setup(args: list[str]) -> Any:
    host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    asked = wallaroo.source("Asked", wallaroo.TCPSourceConfig(host, port, decode)).to(ask)
    counted = asked.to(score).key_by(letter).to(count).to(ask_again)
    host, port = wallaroo.tcp_parse_output_addrs(args)[0]
    return wallaroo.build_application(
        "Asking", counted.to_sink(wallaroo.TCPSinkConfig(host, port, encode))
    )


@wallaroo.once_per_worker
async def service() -> asyncio.Semaphore:
    """Stands for a client, which lives on the loop of its process."""
    return asyncio.Semaphore(1_000)


async def answer(text: str) -> None:
    async with await service():
        with CALLS.open("a") as file:
            file.write(f"{os.getpid()} {text}\n")
        await asyncio.sleep(CALL_S)
        if text == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if text.startswith("bad"):
            raise ConnectionError(text)


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> str:
    return payload.decode()


@wallaroo.computation_async(name="ask", concurrency=20, timeout=wallaroo.seconds(20))
async def ask(text: str) -> str:
    await answer(text)
    return text


@wallaroo.computation_batch(name="score", max=16, wait=wallaroo.milliseconds(10))
def score(texts: list[str]) -> list[tuple[str, int]]:
    return [(text, len(text)) for text in texts]


@wallaroo.key_extractor
def letter(scored: tuple[str, int]) -> str:
    return scored[0][0]


class Seen:
    def __init__(self) -> None:
        self.messages = 0


@wallaroo.state_computation(name="count", state=Seen)
def count(scored: tuple[str, int], seen: Seen) -> tuple[str, int, int]:
    seen.messages += 1
    return (*scored, seen.messages)


@wallaroo.computation_async(name="ask again", concurrency=20, timeout=wallaroo.seconds(20))
async def ask_again(counted: tuple[str, int, int]) -> tuple[str, int, int]:
    await answer(counted[0])
    return counted


@wallaroo.encoder
def encode(counted: tuple[str, int, int]) -> str:
    return "{} {} {}\n".format(*counted)
