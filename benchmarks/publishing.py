"""What it costs to publish every few milliseconds: changes of state, and commits of the gateway."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import streams
from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.wire.records import Outputs, Tally

INTERVALS_S = (0.001, 0.002, 0.005, 0.010, 0.050)
"""Time from one publication to the next."""
RATES = (1_000, 10_000, 100_000)
"""Messages a second."""
_BUDGET_S = 0.4
"""Time to measure one combination for."""
_PUBLISH_INTERVALS_S = (0.001, 0.002, 0.005, 0.010)
_TICK_S = 0.001
"""Pause between two lots of messages that arrive."""


class Quote:
    """A small entity, of the shape of Market Spread's."""

    __slots__ = ("last_bid", "last_offer", "should_reject_trades")

    def __init__(self) -> None:
        self.last_bid = 100.0
        self.last_offer = 100.5
        self.should_reject_trades = True


class Seen:
    """A count."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen = 1


class Totals:
    """A dictionary in one entity, of the shape of Word Count's."""

    __slots__ = ("totals",)

    def __init__(self, words: int) -> None:
        self.totals = {f"word{number:06d}": number for number in range(words)}


class State(NamedTuple):
    """A state whose changes are saved."""

    what: str
    entities: dict[Any, Any]


def states(many_keys: int, words: int) -> list[State]:
    """Small entities, many of them, and a large one."""
    symbols = streams.symbols()
    return [
        State(f"{len(symbols)} small entities", {symbol: Quote() for symbol in symbols}),
        State(f"{many_keys:,} keys", {key: Seen() for key in range(many_keys)}),
        State(f"a dictionary of {words:,} words", {"a": Totals(words)}),
    ]


class Saving(NamedTuple):
    """What it costs to save what one publication's messages changed."""

    messages: int
    """Messages between two publications."""
    seconds: float
    """Median time to save what they changed."""
    size: int
    """Bytes of the record."""


def saving(state: State, messages: int, seed: int = 7) -> Saving:
    """Save the entities that *messages* messages of random keys change, again and again."""
    serializer, rng, keys = EntitySerializer(["state"]), random.Random(seed), list(state.entities)
    taken: list[float] = []
    size, deadline = 0, time.monotonic() + _BUDGET_S
    while len(taken) < 3 or time.monotonic() < deadline:
        changed = {key: state.entities[key] for key in rng.choices(keys, k=messages)}
        began = time.perf_counter()
        record = serializer.record(Changes([changed], [set()]))
        taken.append(time.perf_counter() - began)
        size = len(record)
    taken.sort()
    return Saving(messages, taken[len(taken) // 2], size)


class Commits(NamedTuple):
    """From the arrival of messages to the end of the commit with their outputs, in seconds."""

    latencies: list[float]
    """Of each lot of messages."""
    publications: int

    def at(self, part: float) -> float:
        """The latency that *part* of all lots do not exceed, in milliseconds."""
        ordered = sorted(self.latencies)
        return 1000 * ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def commits(rate: int, interval_s: float, seconds: float, directory: Path, how: str) -> Commits:
    """Messages at *rate* through a journal and an outbox, published every *interval_s* at best.

    Args:
        rate: Messages a second; they arrive every millisecond.
        interval_s: Least time from one publication to the next.
        seconds: How long.
        directory: Where the files are.
        how: `journal only`; `one by one`, each chunk published by itself; or
            `grouped`, all chunks that wait in one transaction.
    """
    journal = Journal(directory / "journal.db", JournalLimits())
    outbox = Outbox(directory / "outbox.db", 1 << 30)
    order = streams.ORDER.pack(53, 1, 1, 7, b"000001", b"AAPL", 100.0, 100.5, streams.TIME)
    lot = max(1, int(rate * _TICK_S))
    output = Outputs(
        0, (streams.RESULT_BYTES).to_bytes(4, "little") * lot, bytes(streams.RESULT_BYTES) * lot
    )

    def publish(number: int, chunks: Sequence[Sequence[Outputs]]) -> None:
        if how == "grouped":
            finished = [
                FinishedChunk(number + place, 0, outputs, Tally(), [])
                for place, outputs in enumerate(chunks)
            ]
            if finished:
                outbox.publish("run", finished)
        elif how == "one by one":
            for place, outputs in enumerate(chunks):
                outbox.publish("run", [FinishedChunk(number + place, 0, outputs, Tally(), [])])

    pause = max(_TICK_S, lot / rate)
    submitted: list[float] = []
    stopping = threading.Event()

    def arrive() -> None:
        began = time.monotonic()
        while not stopping.is_set():
            due = began + len(submitted) * pause
            if (early := due - time.monotonic()) > 0:
                time.sleep(early)
            submitted.append(time.monotonic())
            journal.submit(0, lot, order * lot)

    sender = threading.Thread(target=arrive)
    ends, latencies, publications = time.monotonic() + seconds, list[float](), 0
    sender.start()
    done = 0
    while time.monotonic() < ends:
        began = time.monotonic()
        journal.wait_beyond(done * lot, 1.0)
        reached = journal.end // lot
        publish(done, [[output]] * (reached - done))
        now = time.monotonic()
        latencies += [now - at for at in submitted[done:reached]]
        publications += 1
        done = reached
        if not publications % 100:
            outbox.delivered(0, outbox.last_positions.get(0, 0))
        time.sleep(max(0.0, interval_s - (time.monotonic() - began)))
    stopping.set()
    sender.join()
    journal.close()
    outbox.close()
    return Commits(latencies, publications)


def in_turns(seconds: float, scratch: Path, rate: int = 10_000) -> list[tuple[str, float, Commits]]:
    """`commits` in each way, for each interval."""
    found: list[tuple[str, float, Commits]] = []
    for how in ("journal only", "one by one", "grouped"):
        for interval_s in _PUBLISH_INTERVALS_S:
            with tempfile.TemporaryDirectory(dir=scratch) as directory:
                taken = commits(rate, interval_s, seconds, Path(directory), how)
            found.append((how, interval_s, taken))
    return found
