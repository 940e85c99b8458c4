"""The metrics of published chunks, in the outbox's database: exact whatever is killed.

They are added in the transaction that publishes the chunks, so chunks that are processed again
count once.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from wallaroo.metrics import catalogue
from wallaroo.metrics.catalogue import LATENCY_BOUNDS_S, Metric
from wallaroo.metrics.samples import Distribution, HotKey, Sample
from wallaroo.wire.records import Tally, bounded_ns

SCHEMA = """
CREATE TABLE IF NOT EXISTS figure (
    name TEXT NOT NULL, labels TEXT NOT NULL, value NUMERIC NOT NULL, PRIMARY KEY (name, labels));
CREATE TABLE IF NOT EXISTS state_figure (
    name TEXT NOT NULL, state TEXT NOT NULL, slot INTEGER NOT NULL, value INTEGER NOT NULL,
    PRIMARY KEY (name, state, slot));
"""
_HOT_KEYS = 20
"""Number of keys with the most messages that are reported."""
_FADING = 0.9
"""Part of a key's messages that is left each time: hot is what was hot a moment ago."""
_FADING_NS = 150_000_000
"""Time between two fadings at least; longer if nothing is published."""
_LATENCY_SUM = -1
"""In the place of a bucket of latencies: the sum of all."""
_FIRST = LATENCY_BOUNDS_S.index(0.025)
"""The bucket that is saved as number 0; those before it, added later, have numbers below -1."""
_Count = tuple[str, tuple[str | int, ...]]


class MetricsTable:
    """Adds metrics up in *database*; its caller holds a lock, and the transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._hot: Counter[tuple[str, str]] = Counter()
        self._keyed: Counter[str] = Counter()
        """Recent messages of all keys, by state; they fade as those of each key do."""
        self._faded_ns = 0

    def add(self, tally: Tally, now_ns: int) -> None:
        """Add what the processes reported of chunks, which are published at *now_ns*."""
        counted: Counter[_Count] = Counter()
        for step, metrics in tally.metrics.steps.items():
            counted[catalogue.STEP_MESSAGES.name, step] += metrics.entered
            counted[catalogue.STEP_RESULTS.name, step] += metrics.left
            counted[catalogue.SET_ASIDE.name, step] += metrics.set_aside
            counted["timed", step] += metrics.timed
            counted["seconds", step] += metrics.seconds  # type: ignore[assignment]
        for (source, arrived_ns), messages in tally.metrics.arrivals.items():
            seconds = max(0.0, (now_ns - arrived_ns) / 1e9)
            place = _saved(bisect_left(LATENCY_BOUNDS_S, seconds))
            counted[catalogue.LATENCY.name, (source, place)] += messages
            total = seconds * messages
            counted[catalogue.LATENCY.name, (source, _LATENCY_SUM)] += total  # type: ignore[assignment]
        for (state, _), messages in tally.unknown_keys.items():
            counted[catalogue.UNKNOWN_KEY.name, (state,)] += messages
        for state, entities in tally.metrics.expired.items():
            counted[catalogue.STATE_EXPIRED.name, (state,)] += entities
        for step, messages in tally.late.items():
            counted[catalogue.LATE.name, step] += messages
        self._database.executemany(
            "INSERT INTO figure VALUES (?, ?, ?) "
            "ON CONFLICT (name, labels) DO UPDATE SET value = value + excluded.value",
            [(name, json.dumps(labels), value) for (name, labels), value in counted.items()],
        )
        gauges = [
            (catalogue.STATE_ENTITIES.name, tally.metrics.entities),
            (catalogue.STATE_BYTES.name, tally.metrics.log_bytes),
            (
                catalogue.OPEN_WINDOWS.name,
                {slot: figures.open for slot, figures in tally.metrics.windows.items()},
            ),
            (
                catalogue.WATERMARK.name,
                {
                    slot: bounded_ns(figures.watermark_ns)
                    for slot, figures in tally.metrics.windows.items()
                    if figures.watermark_ns is not None
                },
            ),
        ]
        self._database.executemany(
            "INSERT OR REPLACE INTO state_figure VALUES (?, ?, ?, ?)",
            [(name, *slot, value) for name, slots in gauges for slot, value in slots.items()],
        )
        self._note_hot(tally, now_ns)

    def hot_keys(self) -> list[HotKey]:
        """The keys with the most messages, the first first."""
        return [
            HotKey(state, key, round(count, 1), round(count / max(count, self._keyed[state]), 4))
            for (state, key), count in self._hot.most_common(_HOT_KEYS)
        ]

    def samples(self, pipelines: Sequence[Sequence[str]]) -> Iterator[Sample]:
        """What was added up.

        Args:
            pipelines: For each source, the names of the pipelines that it feeds.
        """
        rows = self._database.execute("SELECT name, labels, value FROM figure").fetchall()
        counts = {(name, tuple(json.loads(labels))): value for name, labels, value in rows}
        for metric in (
            catalogue.STEP_MESSAGES,
            catalogue.STEP_RESULTS,
            catalogue.SET_ASIDE,
            catalogue.UNKNOWN_KEY,
            catalogue.LATE,
            catalogue.STATE_EXPIRED,
        ):
            for (name, labels), value in counts.items():
                if name == metric.name:
                    yield Sample(metric, tuple(map(str, labels)), value)
        for (name, step), value in counts.items():
            if name == "timed":
                spent = Distribution((value,), counts["seconds", step])
                yield Sample(catalogue.STEP_SECONDS, tuple(map(str, step)), spent)
        yield from self._latencies(counts, pipelines)
        for metric in (catalogue.STATE_ENTITIES, catalogue.STATE_BYTES, catalogue.OPEN_WINDOWS):
            yield from self._of_state(metric)
        yield from self._watermarks()

    def _latencies(
        self, counts: dict[_Count, float], pipelines: Sequence[Sequence[str]]
    ) -> Iterator[Sample]:
        for source, names in enumerate(pipelines):
            places = [
                int(counts.get((catalogue.LATENCY.name, (source, _saved(place))), 0))
                for place in range(len(LATENCY_BOUNDS_S) + 1)
            ]
            total = counts.get((catalogue.LATENCY.name, (source, _LATENCY_SUM)), 0.0)
            for pipeline in names:
                yield Sample(catalogue.LATENCY, (pipeline,), Distribution(tuple(places), total))

    def _of_state(self, metric: Metric) -> Iterator[Sample]:
        for state, value in self._database.execute(
            "SELECT state, sum(value) FROM state_figure WHERE name = ? GROUP BY state",
            (metric.name,),
        ):
            yield Sample(metric, (state,), value)

    def _watermarks(self) -> Iterator[Sample]:
        for state, value_ns in self._database.execute(
            "SELECT state, max(value) FROM state_figure WHERE name = ? GROUP BY state",
            (catalogue.WATERMARK.name,),
        ):
            yield Sample(catalogue.WATERMARK, (state,), value_ns / 1e9)

    def _note_hot(self, tally: Tally, now_ns: int) -> None:
        if now_ns - self._faded_ns > _FADING_NS:
            self._faded_ns = now_ns
            for counter in (self._hot, self._keyed):
                _fade(counter)
        self._hot.update(tally.metrics.hot_keys)
        self._keyed.update(tally.metrics.keyed)


def _fade(counter: Counter[Any]) -> None:
    for name in list(counter):
        counter[name] *= _FADING  # type: ignore[assignment]
        if counter[name] < 1:
            del counter[name]


def _saved(bucket: int) -> int:
    """The number that a bucket of latencies is saved as."""
    return bucket - _FIRST if bucket >= _FIRST else bucket - _FIRST - 1
