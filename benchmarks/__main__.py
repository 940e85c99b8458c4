"""The benchmark of `make bench`: our figures beside bare Python's, alternately, in one run."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import click

from benchmarks import backlog, latency, throughput
from benchmarks.throughput import Load

_LATENCY_RATE = 2_000


@click.command()
@click.option("--spread", default=3_000_000, show_default=True, help="Market Spread messages.")
@click.option("--words", default=300_000, show_default=True, help="Word Count lines.")
@click.option("--passes", default=3, show_default=True, help="Measured passes, after a warm-up.")
@click.option("--workers", default=2, show_default=True, help="Worker processes.")
@click.option("--seconds", default=20.0, show_default=True, help="Seconds at a fixed rate.")
@click.option("--backlog-messages", default=10_000_000, show_default=True)
def main(
    spread: int, words: int, passes: int, workers: int, seconds: float, backlog_messages: int
) -> None:
    """Measure TCP to TCP, journal, checkpoint and exactly-once on, beside bare Python."""
    with tempfile.TemporaryDirectory(prefix="wallaroo-bench-") as directory:
        scratch = Path(directory)
        _throughput("Market Spread", throughput.market_spread, spread, passes, workers, scratch)
        _throughput("Word Count", throughput.word_count, words, passes, workers, scratch)
        click.echo(f"latency at {_LATENCY_RATE:,} messages/s, {workers} workers …", err=True)
        found = latency.at_rate(_LATENCY_RATE, seconds, workers, scratch)
        click.echo(
            f"latency at {_LATENCY_RATE:,} messages/s: p50 {found.p50:,.0f} ms, "
            f"p99 {found.p99:,.0f} ms, worst {found.worst:,.0f} ms"
        )
        click.echo(f"a gateway with {backlog_messages:,} messages of backlog …", err=True)
        memory = backlog.peak_memory_mb(backlog_messages, scratch)
        click.echo(f"gateway with {backlog_messages:,} messages of backlog: {memory:,.0f} MB peak")


def _throughput(
    name: str,
    make: Callable[[int], Load],
    messages: int,
    passes: int,
    workers: int,
    scratch: Path,
) -> None:
    click.echo(f"{name}: {messages:,} messages, {passes} passes, {workers} workers …", err=True)
    load = make(messages)
    bare = [throughput.bare(load, scratch)]
    ours = throughput.streamed(load, workers, passes, scratch)
    bare.append(throughput.bare(load, scratch))
    middle, beside = statistics.median(ours), statistics.mean(bare)
    click.echo(
        f"{name}: {middle:,.0f} messages/s TCP to TCP (from {min(ours):,.0f} to {max(ours):,.0f}), "
        f"bare Python on one core {beside:,.0f}: ratio {middle / beside:.2f}"
    )


if __name__ == "__main__":
    main()
