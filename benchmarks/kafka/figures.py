"""The figures of the group `kafka`."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from tests.kafka.artifacts import NotAvailable
from tests.kafka.broker import AS_INSTALLED, Broker

from benchmarks import loads
from benchmarks.figures import Figure, Settings, figure_of, ratio_of
from benchmarks.kafka import latency
from benchmarks.kafka.systems import (
    EXACTLY_ONCE,
    GUARANTEES,
    Ours,
    Stream,
    peer,
    peer_running,
)
from benchmarks.latency import Latencies
from benchmarks.loads import Load
from benchmarks.running import Pass

_INTERVAL_S = 0.1
"""Seconds between commits of the peers, as Kafka Streams has it in transactions."""
_RATES = (1_000, 10_000)
_WARM_UP_S = 30.0
"""Seconds for which each system runs at the highest rate before latencies are measured."""
_PLAIN, _ONE_CORE, _QUIX = "confluent-kafka", "confluent-kafka on one core", "Quix Streams"
_OURS = "ours"


def kafka(settings: Settings, scratch: Path) -> Iterator[Figure]:
    """Kafka to Kafka beside a loop on confluent-kafka and Quix Streams, in turns."""
    directory = scratch / "broker"
    directory.mkdir()
    try:
        broker = Broker(directory, AS_INSTALLED)
    except NotAvailable as reason:
        click.echo(f"nothing is measured: {reason}", err=True)
        return
    try:
        for name, load, less in (
            (
                "Market Spread",
                loads.market_spread(settings.spread),
                loads.market_spread(settings.spread // 10),
            ),
            (
                "Word Count",
                loads.word_count(settings.words),
                loads.word_count(settings.words // 50),
            ),
        ):
            yield from _throughput(name, load, less, broker, settings, scratch)
        yield from _latencies(broker, settings, scratch)
    finally:
        broker.stop()


def _throughput(
    name: str, load: Load, less: Load, broker: Broker, settings: Settings, scratch: Path
) -> Iterator[Figure]:
    """Throughput of *load*; Quix Streams gets *less*, which is enough for it."""
    taken: dict[tuple[str, str], list[Pass]] = {}
    with contextlib.ExitStack() as stack:
        ours = {
            guarantee: stack.enter_context(Ours(broker, load, guarantee, settings.workers, scratch))
            for guarantee in GUARANTEES
        }
        for one in ours.values():
            one.measured()
        for _ in range(settings.passes):
            for guarantee in GUARANTEES:
                passed = {
                    _OURS: ours[guarantee].measured(),
                    _PLAIN: peer("plain_kafka", broker, load, guarantee, _INTERVAL_S, None),
                    _ONE_CORE: peer("plain_kafka", broker, load, guarantee, _INTERVAL_S, 1),
                }
                if guarantee == EXACTLY_ONCE:
                    passed[_QUIX] = peer("quix_flow", broker, less, guarantee, _INTERVAL_S, None)
                for system, pass_ in passed.items():
                    taken.setdefault((system, guarantee), []).append(pass_)
    for guarantee in GUARANTEES:
        of_ours = taken[_OURS, guarantee]
        for (system, having), passes in taken.items():
            if having == guarantee:
                yield figure_of(f"{name}, {guarantee}, {system}", passes)
                if system != _OURS:
                    yield _ratio(f"{name}, {guarantee}, ours against {system}", of_ours, passes)


def _latencies(broker: Broker, settings: Settings, scratch: Path) -> Iterator[Figure]:
    """Latency of ours, and of the loop with a commit for whatever it has read, in turns."""
    load = loads.all_rejected(700)
    for guarantee in GUARANTEES:
        plain = Stream(broker, load)
        with (
            Ours(broker, load, guarantee, settings.workers, scratch) as running,
            peer_running("plain_kafka", broker, load.name, plain, guarantee, 0.0, None),
        ):
            for stream in (running.stream, plain):  # Java, the broker's too, is slow at first
                latency.at_rate(broker.address, stream, _RATES[-1], _WARM_UP_S)
            for rate in _RATES:
                turns = [
                    [
                        latency.at_rate(broker.address, stream, rate, settings.seconds)
                        for stream in (running.stream, plain)
                    ]
                    for _ in range(settings.passes)
                ]
                ours, others = zip(*turns, strict=True)
                what = f"Market Spread, {guarantee}, at {rate:,} messages/s"
                yield _latency(f"{what}, {_OURS}", ours)
                yield _latency(f"{what}, {_PLAIN}", others)
                for name in ("p50", "p99"):
                    values = [[getattr(one, name) for one in found] for found in (ours, others)]
                    yield ratio_of(f"{what}, {name} of ours against {_PLAIN}", *values)
        plain.end()


def _latency(what: str, turns: Sequence[Latencies]) -> Figure:
    """That of the turn with the median in the middle."""
    medians = [turn.p50 for turn in turns]
    found = min(turns, key=lambda turn: abs(turn.p50 - statistics.median(medians)))
    detail = {"p99": found.p99, "p99.9": found.p999, "worst": found.worst, **found.cpu}
    return Figure(what, found.p50, "ms", min(medians), max(medians), detail)


def _ratio(what: str, ours: Sequence[Pass], others: Sequence[Pass]) -> Figure:
    return ratio_of(what, [one.rate for one in ours], [other.rate for other in others])
