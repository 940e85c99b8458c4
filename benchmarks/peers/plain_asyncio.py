"""The same calls in one Python process with nothing but asyncio, from a file to a file, in order.

As many tasks as calls are made at a time take one message after the other. `limited` gives each
call the time limit that ours has; `unlimited` gives it none. Prints the seconds it took.

    python -m benchmarks.peers.plain_asyncio limited|unlimited MESSAGES RESULT
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.asking import application as app
from benchmarks.peers.bare import payloads


async def answers(waiting: Iterator[tuple[int, bytes]], results: dict[int, bytes]) -> None:
    """Call the application's functions for what is *waiting*."""
    decode, ask, encode = app.decode.function, app.ask.function, app.encode.function
    for number, payload in waiting:
        results[number] = encode(await ask(decode(payload)))


async def limited_answers(waiting: Iterator[tuple[int, bytes]], results: dict[int, bytes]) -> None:
    """The same, with a time limit for each call."""
    decode, ask, encode = app.decode.function, app.ask.function, app.encode.function
    for number, payload in waiting:
        async with asyncio.timeout(app.TIMEOUT_S):
            results[number] = encode(await ask(decode(payload)))


async def main(style: str, messages: Path, result: Path) -> None:
    """Answer *messages*."""
    answer = limited_answers if style == "limited" else answers
    results: dict[int, bytes] = {}
    waiting = enumerate(payloads(messages))
    await asyncio.gather(*[answer(waiting, results) for _ in range(app.CONCURRENCY)])
    result.write_bytes(b"".join(results[number] for number in range(len(results))))


if __name__ == "__main__":
    began = time.monotonic()
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
    print(time.monotonic() - began)
