"""What is measured, one function for each group of figures."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from benchmarks import backlog, latency, loads
from benchmarks import contention as contended
from benchmarks import publishing as published
from benchmarks.arrivals import Pattern
from benchmarks.loads import Load
from benchmarks.peers import measured as peers
from benchmarks.running import Pass, Running


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    spread: int = 3_000_000
    """Messages of a pass of Market Spread."""
    words: int = 300_000
    """Lines of a pass of Word Count."""
    keyed: int = 2_000_000
    """Messages of a pass over many keys."""
    passes: int = 3
    """Measured passes, after one that warms up."""
    workers: int = 2
    """Worker processes."""
    seconds: float = 20.0
    """Seconds at each fixed rate, after ten that warm up."""
    many_keys: int = 1_000_000
    """What counts as many keys."""
    backlog: int = 10_000_000
    """Messages that a gateway holds while nobody processes them."""
    bytes: int = 300_000_000
    """Bytes of a pass of large messages."""
    contended_s: float = 300.0
    """Seconds during which other programs take all cores."""
    steady_s: float = 600.0
    """Seconds over which rare delays are looked for."""
    rates: tuple[int, ...] = (1_000, 10_000, 50_000, 100_000, 200_000, 300_000, 400_000)
    """Messages a second at which latency is measured."""
    asked: int = 200_000
    """Messages of a pass of calls that wait."""
    decoded: int = 1_000_000
    """Messages of a pass that are JSON."""
    timed: int = 1_000_000
    """Messages of a pass in which each second one ends a session; two of each key at least."""
    joined: int = 500_000
    """Messages of a pass of a join."""
    posted: int = 10_000
    """Requests of a pass over HTTP."""


_SETTLE_S = 10.0
"""Time after the first outputs in which an engine has done what it does once, such as an epoch."""
FEW_KEYS = 350
"""What counts as few keys: as many as Market Spread has."""


@dataclass
class Figure:
    """One row of the result."""

    what: str
    value: float
    unit: str
    lowest: float | None = None
    highest: float | None = None
    detail: dict[str, float] = field(default_factory=dict)


Group = Callable[[Settings, Path], Iterable[Figure]]


def throughput(settings: Settings, scratch: Path) -> list[Figure]:
    """TCP to TCP with everything on, beside bare Python and Bytewax, in turns."""
    found: list[Figure] = []
    for name, load in (
        ("Market Spread", loads.market_spread(settings.spread)),
        ("Word Count", loads.word_count(settings.words)),
    ):
        ours: list[Pass] = []
        beside: dict[str, list[float]] = {}
        with Running(load, settings.workers, scratch) as running:
            running.tcp_to_tcp()
            for _ in range(settings.passes):
                ours.append(running.tcp_to_tcp())
                for peer, rate in _peers(load, settings, scratch):
                    beside.setdefault(peer, []).append(rate)
        middle = figure_of(f"{name}, TCP to TCP", ours)
        found.append(middle)
        for peer, rates in beside.items():
            other = median_of(f"{name}, {peer}", rates, "messages/s")
            ratio = middle.value / other.value
            found += [other, Figure(f"{name}, ours against {peer}", ratio, "ratio")]
    return found


def engine(settings: Settings, scratch: Path) -> list[Figure]:
    """From journal to outbox, with one worker and with several, beside bare Python."""
    load = loads.market_spread(settings.spread)
    found: list[Figure] = []
    bare = statistics.mean(peers.bare(load, "functions", scratch) for _ in range(2))
    for workers in sorted({1, settings.workers}):
        with Running(load, workers, scratch) as running:
            running.tcp_to_tcp()
            passes = [running.journal_to_outbox() for _ in range(settings.passes)]
        figure = figure_of(f"Market Spread, journal to outbox, workers: {workers}", passes)
        found += [figure, Figure(f"{figure.what}, against bare", figure.value / bare, "ratio")]
    if settings.workers > 1:
        ratio = found[-2].value / found[0].value
        found.append(Figure(f"{settings.workers} workers against 1", ratio, "ratio"))
    return found


def keys(settings: Settings, scratch: Path) -> list[Figure]:
    """Throughput with few and with many keys, beside bare Python."""
    found, bare = list[Figure](), list[float]()
    for count in (FEW_KEYS, settings.many_keys // 10, settings.many_keys):
        load = loads.keyed(settings.keyed, count)
        what = f"a count for each of {count:,} keys, TCP to TCP"
        found.append(figure_of(what, _passes(load, settings, scratch)))
        bare.append(peers.bare(load, "functions", scratch))
    what = f"{settings.many_keys:,} keys against {FEW_KEYS}"
    ratio, of_bare = found[-1].value / found[0].value, bare[-1] / bare[0]
    return [
        *found,
        Figure(what, ratio, "ratio"),
        Figure(f"{what}, bare Python", of_bare, "ratio"),
    ]


def skew(settings: Settings, scratch: Path) -> list[Figure]:
    """Throughput where one key gets half of all messages."""
    found: list[Figure] = []
    for what, hot in (("all alike", 0.0), ("half of all for one", 0.5)):
        load = loads.keyed(settings.keyed, FEW_KEYS, hot=hot)
        passes = _passes(load, settings, scratch)
        found.append(figure_of(f"messages for {FEW_KEYS} keys, {what}, TCP to TCP", passes))
    ratio = found[1].value / found[0].value
    return [*found, Figure("half of all messages for one key against all alike", ratio, "ratio")]


def sizes(settings: Settings, scratch: Path) -> list[Figure]:
    """Throughput by the size of messages."""
    found: list[Figure] = []
    for size in (100, 1_000, 10_000):
        load = loads.keyed(min(settings.keyed, settings.bytes // size), FEW_KEYS, size)
        passes = _passes(load, settings, scratch)
        figure = figure_of(f"messages of {size:,} bytes, TCP to TCP", passes)
        found += [figure, Figure(figure.what, figure.value * size / 1e6, "MB/s")]
    return found


def metrics(settings: Settings, scratch: Path) -> list[Figure]:
    """What collecting figures costs: Market Spread with and without, in turns."""
    load = loads.market_spread(settings.spread)
    with (
        Running(load, settings.workers, scratch) as counted,
        Running(loads.uncounted(load), settings.workers, scratch) as uncounted,
    ):
        with_figures, without = in_turns(
            {"with": counted, "without": uncounted}, settings.passes
        ).values()
    found = [
        figure_of("Market Spread with figures, TCP to TCP", with_figures),
        figure_of("Market Spread without figures, TCP to TCP", without),
    ]
    spent = [
        statistics.median(sum(p.cpu_us.values()) for p in of) for of in (with_figures, without)
    ]
    cost = 100 * (1 - found[0].value / found[1].value)
    return [
        *found,
        Figure("what figures cost", cost, "% of throughput"),
        Figure("what figures cost", 100 * (spent[0] / spent[1] - 1), "% of processor time"),
    ]


def floor(settings: Settings, scratch: Path) -> Iterator[Figure]:
    """What state that nothing is sent for costs."""
    found = []
    for idle in (1, settings.many_keys // 10, settings.many_keys):
        probe = latency.few_keys(idle)
        beside = f"{idle:,} idle keys" if idle > 1 else "no idle state"
        found.append(_latency(f"200 messages/s beside {beside}", settings, scratch, probe, 200))
        yield found[-1]
    ratio = found[-1].value / found[0].value
    yield Figure(f"{settings.many_keys:,} idle keys against none", ratio, "ratio")


def latencies(settings: Settings, scratch: Path) -> Iterator[Figure]:
    """Latency from socket to socket by rate, with messages that come alone and in bursts."""
    for rate in settings.rates:
        for pattern in get_args(Pattern):
            what = f"Market Spread at {rate:,} messages/s, {pattern}"
            yield _latency(what, settings, scratch, latency.orders(), rate, pattern)


def steady(settings: Settings, scratch: Path) -> list[Figure]:
    """Latency over minutes, ends of epochs included."""
    longer = replace(settings, seconds=settings.steady_s)
    what = f"Market Spread at 10,000 messages/s for {settings.steady_s:,.0f} s"
    return [_latency(what, longer, scratch, latency.orders(), 10_000)]


def contention(settings: Settings, scratch: Path) -> Iterator[Figure]:
    """While other programs take all cores: as many as there are cores, and a half."""
    for rate in (1_000, 20_000):
        shared = contended.contended(
            latency.orders(), rate, settings.contended_s, settings.workers, scratch
        )
        what = f"{rate:,} messages/s beside {shared.programs} busy programs"
        yield Figure(f"{what}, lowest rate in 5 s", shared.lowest, "messages/s")
        yield Figure(f"{what}, median latency", shared.p50, "ms", detail={"p99": shared.p99})
        yield Figure(f"{what}, from their end until all is out", shared.drained_s, "s")


def publishing(settings: Settings, _scratch: Path) -> list[Figure]:
    """What saving changes of state every few milliseconds costs."""
    found: list[Figure] = []
    for state in published.states(settings.many_keys, settings.many_keys // 10):
        for rate in published.RATES:
            for interval_s in published.INTERVALS_S:
                saved = published.saving(state, max(1, int(rate * interval_s)))
                every = max(interval_s, saved.messages / rate)
                found.append(
                    Figure(
                        f"saving changes of {state.what}, {rate:,} messages/s every "
                        f"{1000 * interval_s:g} ms",
                        saved.seconds * 1e6 / saved.messages,
                        "µs a message",
                        detail={
                            "% of the time": 100 * saved.seconds / every,
                            "MB/s": saved.size / every / 1e6,
                        },
                    )
                )
    return found


def footprint(settings: Settings, scratch: Path) -> Iterator[Figure]:
    """Start, memory, and what it costs to wait."""
    few, load = loads.market_spread(700), loads.market_spread(settings.spread)
    began = time.monotonic()
    with Running(few, settings.workers, scratch) as running:
        running.tcp_to_tcp()
        started = time.monotonic() - began
        time.sleep(_SETTLE_S)
        idle = running.idle_cpu(settings.seconds)
    with Running(load, settings.workers, scratch) as running:
        running.tcp_to_tcp()
        running.tcp_to_tcp()
        memory = running.memory_mb()
    yield Figure("from the command to the first output", started, "s")
    yield Figure("processor time while nothing is sent", 100 * idle, "% of a core")
    yield Figure("memory after Market Spread", sum(memory.values()), "MB", detail=memory)
    held = backlog.peak_memory_mb(settings.backlog, scratch)
    yield Figure(f"peak of a gateway with {settings.backlog:,} messages of backlog", held, "MB")


def in_turns(running: Mapping[str, Running], passes: int) -> dict[str, list[Pass]]:
    """Passes from TCP to TCP, one after the other, behind one of each that warms up."""
    taken: dict[str, list[Pass]] = {name: [] for name in running}
    for number in range(passes + 1):
        for name, one in running.items():
            passed = one.tcp_to_tcp()
            if number:
                taken[name].append(passed)
    return taken


def _passes(load: Load, settings: Settings, scratch: Path) -> list[Pass]:
    """Passes from TCP to TCP, behind one that warms up."""
    with Running(load, settings.workers, scratch) as running:
        running.tcp_to_tcp()
        return [running.tcp_to_tcp() for _ in range(settings.passes)]


def _peers(load: Load, settings: Settings, scratch: Path) -> list[tuple[str, float]]:
    return [
        ("bare Python", peers.bare(load, "functions", scratch)),
        ("bare Python by hand", peers.bare(load, "by-hand", scratch)),
        ("Bytewax, 1 worker", peers.bytewax(load, 1, scratch)),
        (
            f"Bytewax, {settings.workers} workers",
            peers.bytewax(load, settings.workers, scratch),
        ),
    ]


def median_of(what: str, values: Sequence[float], unit: str) -> Figure:
    """The median of the *values* of all turns, with the lowest and the highest."""
    return Figure(what, statistics.median(values), unit, min(values), max(values))


def ratio_of(what: str, ones: Sequence[float], others: Sequence[float]) -> Figure:
    """The median of the ratios of the turns: what else the machine does varies between turns."""
    ratios = [one / other for one, other in zip(ones, others, strict=True)]
    return median_of(what, ratios, "ratio")


def figure_of(what: str, passes: Sequence[Pass]) -> Figure:
    rates = [p.rate for p in passes]
    middle = min(passes, key=lambda p: abs(p.rate - statistics.median(rates)))
    return Figure(what, middle.rate, "messages/s", min(rates), max(rates), dict(middle.cpu_us))


def _latency(
    what: str,
    settings: Settings,
    scratch: Path,
    probe: latency.Probe,
    rate: int,
    pattern: Pattern = "independent",
) -> Figure:
    """Latency of *probe* at *rate*, with the cores that the sender takes of those measured."""
    found = latency.at_rate(
        probe, rate, settings.seconds, settings.workers, scratch, pattern=pattern
    )
    detail = {"p99": found.p99, "p99.9": found.p999, "worst": found.worst}
    detail["cores of the sender"] = found.cpu["sender"]
    return Figure(what, found.p50, "ms", detail=detail)
