"""Messages a second, TCP to TCP, with everything on; and bare Python beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import streams
from wallaroo.cli.background import BackgroundRun

APPS = Path(__file__).parents[1] / "apps"


@dataclass(frozen=True)
class Load:
    """A finite stream for one application."""

    app: str
    inputs: Sequence[bytes]
    """The bytes for each source, in the order of `--in`."""
    messages: int
    unit: str
    """In what outputs are counted: bytes or lines."""
    outputs: int
    """How many of them must come out."""

    def write_to(self, directory: Path) -> list[Path]:
        """Write the inputs to files."""
        files = [directory / f"{self.app}-{number}.bin" for number in range(len(self.inputs))]
        for file, data in zip(files, self.inputs, strict=True):
            file.write_bytes(data)
        return files


def market_spread(messages: int, seed: int = 7) -> Load:
    """Half orders, half quotes."""
    listed = streams.symbols()
    framed, rejected = streams.orders(listed, messages // 2, seed)
    quotes = streams.market_data(listed, messages // 2, seed)
    outputs = rejected * streams.RESULT_BYTES
    return Load("market_spread", [framed, quotes], messages, "bytes", outputs)


def word_count(messages: int, seed: int = 7) -> Load:
    """Lines of ten words."""
    framed, words = streams.lines(messages, seed)
    return Load("word_count", [framed], messages, "lines", words)


def bare(load: Load, scratch: Path) -> float:
    """Messages a second of bare Python on one core, files to file."""
    files = [str(file) for file in load.write_to(scratch)]
    files.reverse()  # market data first: every symbol has a quote before its first order
    command = [sys.executable, "-m", "benchmarks.bare", load.app, *files, str(scratch / "bare.out")]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    return load.messages / float(told.stdout)


def streamed(load: Load, workers: int, passes: int, scratch: Path) -> list[float]:
    """Messages a second, TCP to TCP, in each of *passes* after one that warms up."""
    files = load.write_to(scratch)
    counts = [str(load.outputs)] * (passes + 1)
    with _peer("receive", load.unit, *counts) as receiver:
        address = _told(receiver)
        arguments = [
            *("run", str(APPS / load.app), "--out", address, "--workers", str(workers)),
            *("--in", ",".join(["127.0.0.1:0"] * len(files)), "--state-dir"),
            str(scratch / f"state-{load.app}-{workers}"),
        ]
        with BackgroundRun(arguments) as running:
            rates: list[float] = []
            for _ in range(passes + 1):
                senders = [
                    _peer("send", to, str(file))
                    for to, file in zip(running.sources.values(), files, strict=True)
                ]
                began = min(float(_told(sender)) for sender in senders)
                rates.append(load.messages / (float(_told(receiver)) - began))
                for sender in senders:
                    sender.communicate()
            running.stop()
    return rates[1:]


def _peer(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.peers", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _told(peer: subprocess.Popen[str]) -> str:
    assert peer.stdout is not None
    return peer.stdout.readline().strip()
