"""The figures of the group `kafka`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from tests.kafka.artifacts import NotAvailable
from tests.kafka.broker import Broker

from benchmarks import loads
from benchmarks.figures import Figure, Settings, figure_of, ratio_of
from benchmarks.kafka import latency
from benchmarks.kafka.systems import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    GUARANTEES,
    Ours,
    Stream,
    peer,
    peer_running,
)
from benchmarks.loads import Load
from benchmarks.running import Pass

_INTERVAL_S = 0.1
"""Seconds between commits of the peers, as Kafka Streams has it in transactions."""
_RATES = (1_000, 10_000)
_PLAIN, _ONE_CORE, _QUIX = "confluent-kafka", "confluent-kafka on one core", "Quix Streams"
_OURS = "ours"


def kafka(settings: Settings, scratch: Path) -> Iterator[Figure]:
    """Kafka to Kafka beside a loop on confluent-kafka and Quix Streams, in turns."""
    directory = scratch / "broker"
    directory.mkdir()
    try:
        broker = Broker(directory)
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
    """Latency of ours, and of the loop with a commit for whatever it has read."""
    load = loads.market_spread(700)
    for guarantee in (EXACTLY_ONCE, AT_LEAST_ONCE):
        with Ours(broker, load, guarantee, settings.workers, scratch) as running:
            yield from _latency(_OURS, guarantee, broker, running.stream, settings)
        stream = Stream(broker, load)
        with peer_running("plain_kafka", broker, load.name, stream, guarantee, 0.0, None):
            yield from _latency(_PLAIN, guarantee, broker, stream, settings)
        stream.end()


def _latency(
    system: str, guarantee: str, broker: Broker, stream: Stream, settings: Settings
) -> Iterator[Figure]:
    for rate in _RATES:
        found = latency.at_rate(broker.address, stream, rate, settings.seconds)
        what = f"Market Spread, {guarantee}, at {rate:,} messages/s, {system}"
        detail = {"p99": found.p99, "p99.9": found.p999, "worst": found.worst}
        yield Figure(what, found.p50, "ms", detail=detail)


def _ratio(what: str, ours: Sequence[Pass], others: Sequence[Pass]) -> Figure:
    return ratio_of(what, [one.rate for one in ours], [other.rate for other in others])
