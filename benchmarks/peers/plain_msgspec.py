"""JSON in one Python process with nothing but msgspec, from a file to a file, and decoders alone.

`loop` decodes each message, calls the application's function and encodes what it returns, with
msgspec; `msgspec` decodes only, and so does `ours`, with the application's decoder. Prints the
seconds it took.

    python -m benchmarks.peers.plain_msgspec loop|msgspec|ours MESSAGES RESULT
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec

from benchmarks.peers.bare import payloads
from benchmarks.trades import application as app


def loop(messages: Path, result: Path) -> float:
    """From file to file."""
    began = time.monotonic()
    decode, large = msgspec.json.Decoder(app.Trade).decode, app.large.function
    encode = msgspec.json.Encoder().encode
    with result.open("wb", 1 << 20) as out:
        for payload in payloads(messages):
            trade = large(decode(payload))
            if trade is not None:
                out.write(encode(trade) + b"\n")
    return time.monotonic() - began


def decoded(messages: Path, style: str) -> float:
    """Decode what is in memory."""
    decode = app.decode if style == "ours" else msgspec.json.Decoder(app.Trade).decode
    waiting = list(payloads(messages))
    began = time.monotonic()
    for payload in waiting:
        decode(payload)
    return time.monotonic() - began


if __name__ == "__main__":
    style, file, to = sys.argv[1:]
    print(loop(Path(file), Path(to)) if style == "loop" else decoded(Path(file), style))
