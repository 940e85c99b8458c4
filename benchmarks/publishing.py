"""Cost of saving changes of state every few milliseconds."""

from __future__ import annotations

import random
import time
from typing import Any, NamedTuple

from benchmarks import streams
from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.entities import EntitySerializer

INTERVALS_S = (0.001, 0.002, 0.005, 0.010, 0.050)
"""Time from one publication to the next."""
RATES = (1_000, 10_000, 100_000)
"""Messages a second."""
_BUDGET_S = 0.4
"""Time to measure one combination for."""


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
