"""The groups of figures by name."""

from __future__ import annotations

from benchmarks import figures
from benchmarks.awaiting import async_steps
from benchmarks.decoding import decoding
from benchmarks.failover import failover
from benchmarks.figures import Group
from benchmarks.intake import intake
from benchmarks.joins import joins
from benchmarks.kafka.figures import kafka
from benchmarks.protection import measured as protection
from benchmarks.reading import reading
from benchmarks.stages import stages
from benchmarks.timed import timed

GROUPS: dict[str, Group] = {
    "throughput": figures.throughput,
    "engine": figures.engine,
    "keys": figures.keys,
    "skew": figures.skew,
    "sizes": figures.sizes,
    "metrics": figures.metrics,
    "protection": protection,
    "floor": figures.floor,
    "latency": figures.latencies,
    "steady": figures.steady,
    "reading": reading,
    "contention": figures.contention,
    "publishing": figures.publishing,
    "stages": stages,
    "footprint": figures.footprint,
    "failover": failover,
    "kafka": kafka,
    "async": async_steps,
    "json": decoding,
    "http": intake,
    "timers": timed,
    "joins": joins,
}
