"""Latency while a program reads the state over HTTP, beside latency without it.

`python -m benchmarks.reading URL READS` is that program: it reads entities of random symbols at
independent times, from the first line of its standard input until that ends, and prints how long
the answers took.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

from tests.helpers import free_address

from benchmarks import latency, streams
from benchmarks.figures import Figure, Settings

_PATH = b"/state/symbol-data/"
_CONNECTIONS = 16
RATE, READS = 10_000, (0, 100, 1_000)
"""Messages and reads a second."""


def reading(settings: Settings, scratch: Path) -> Iterator[Figure]:
    """Milliseconds of messages without and beside reads, in turns, and of the reads."""
    for turn in range(settings.passes):
        for reads in READS:
            timings: dict[str, float] = {}
            at = free_address()
            with _program(f"http://{at}/", reads) as program:
                taken = latency.times_at(
                    latency.orders(),
                    RATE,
                    settings.seconds,
                    settings.workers,
                    scratch,
                    ("--ui", at),
                    _reading(program, timings) if reads else None,
                )
            found = latency.Latencies.of(taken.taken, taken.cpu)
            what = f"{RATE:,} messages/s beside {reads:,} reads/s, pass {turn + 1}"
            yield Figure(what, found.p50, "ms", detail={"p99": found.p99, **taken.cpu})
            if reads:
                yield Figure(f"{what}, reads", timings["p50"], "ms", detail=timings)


def _program(url: str, reads: int) -> subprocess.Popen[str]:
    """Start the reader ahead of time, so that its imports are done when it is told to begin."""
    command = [sys.executable, "-m", "benchmarks.reading", url, str(reads)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextmanager
def _reading(program: subprocess.Popen[str], timings: dict[str, float]) -> Iterator[None]:
    """Let *program* read while the block runs, then add what it measured to *timings*."""
    assert program.stdin is not None
    print(file=program.stdin, flush=True)
    yield
    answer, _ = program.communicate()
    timings.update(json.loads(answer))


async def _read(url: str, reads: int) -> list[float]:
    """How long each read took from the time at which it was due, in seconds."""
    taken = list[float]()
    due = time.monotonic()
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    async def reader() -> None:
        nonlocal due
        at = urlsplit(url)
        answers, requests = await asyncio.open_connection(at.hostname, at.port)
        while not ended.done():
            due += random.expovariate(reads)
            mine = due
            await asyncio.sleep(max(0.0, mine - time.monotonic()))
            symbol = random.choice(symbols)
            requests.write(b"GET %s%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % (_PATH, symbol))
            head = await answers.readuntil(b"\r\n\r\n")
            length = head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]
            await answers.readexactly(int(length))
            assert b" 200 " in head[:20], head
            taken.append(time.monotonic() - mine)

    symbols = [quote(repr(symbol)).encode() for symbol in streams.symbols()]
    await asyncio.gather(*(reader() for _ in range(_CONNECTIONS)))
    return taken


def main() -> None:
    """Wait for a line on standard input, then read state until the input ends."""
    if not sys.stdin.readline():
        return
    before = time.process_time()
    taken = sorted(asyncio.run(_read(sys.argv[1], int(sys.argv[2]))))
    used = time.process_time() - before
    print(
        json.dumps(
            {
                "reads": len(taken),
                "p50": 1000 * taken[len(taken) // 2],
                "p99": 1000 * taken[int(0.99 * len(taken))],
                "processor s": used,
            }
        )
    )


if __name__ == "__main__":
    main()
