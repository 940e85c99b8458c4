"""The metrics of published chunks, in the outbox's records: exact whatever is killed.

They are added up from the records that publish the chunks, so chunks that are processed again count
once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wallaroo.gateway.numbering import TAKEN
from wallaroo.metrics import catalogue
from wallaroo.metrics.catalogue import LATENCY_BOUNDS_S, Metric
from wallaroo.metrics.samples import Distribution, HotKey, Sample
from wallaroo.wire.records import Tally, bounded_ns

_HOT_KEYS = 20
"""Number of keys with the most messages that are reported."""
_FADING = 0.9
"""Part of a key's messages that is left each time: hot is what was hot a moment ago."""
_FADING_NS = 150_000_000
"""Time between two fadings at least; longer if nothing is published."""
_LATENCY_SUM = -1
"""In the place of a bucket of latencies: the sum of all."""
_Count = tuple[str, tuple[str | int, ...]]


class MetricsTable:
    """Adds metrics up; the caller holds a lock."""

    def __init__(self) -> None:
        self._figures = Counter[_Count]()
        self._of_states: dict[tuple[str, str, int], int] = {}
        """Gauges by metric, state and slot."""
        self._hot: Counter[tuple[str, str]] = Counter()
        self._keyed: Counter[str] = Counter()
        """Recent messages of all keys, by state; they fade as those of each key do."""
        self._faded_ns = 0

    def restore(self, tables: Mapping[str, Any]) -> None:
        """Begin with *tables*, as `tables` returned them."""
        for name, labels, value in tables["figures"]:
            self._figures[name, tuple(labels)] = value
        for *of, value in tables["of_states"]:
            self._of_states[tuple(of)] = value

    def tables(self) -> dict[str, Any]:
        """All that is added up, as plain JSON values."""
        return {
            "figures": [[*of, value] for of, value in self._figures.items()],
            "of_states": [[*of, value] for of, value in self._of_states.items()],
        }

    def add(self, tally: Tally, now_ns: int) -> None:
        """Add what the processes reported of chunks, which are published at *now_ns*."""
        counted = self._figures
        for step, metrics in tally.metrics.steps.items():
            counted[catalogue.STEP_MESSAGES.name, step] += metrics.entered
            counted[catalogue.STEP_RESULTS.name, step] += metrics.left
            counted[catalogue.SET_ASIDE.name, step] += metrics.set_aside
            counted["timed", step] += metrics.timed
            counted["seconds", step] += metrics.seconds  # type: ignore[assignment]
        for (source, arrived_ns), messages in tally.metrics.arrivals.items():
            seconds = max(0.0, (now_ns - arrived_ns) / 1e9)
            place = bisect_left(LATENCY_BOUNDS_S, seconds)
            counted[catalogue.LATENCY.name, (source, place)] += messages
            total = seconds * messages
            counted[catalogue.LATENCY.name, (source, _LATENCY_SUM)] += total  # type: ignore[assignment]
        for (state, _), messages in tally.unknown_keys.items():
            counted[catalogue.UNKNOWN_KEY.name, (state,)] += messages
        for state, entities in tally.metrics.expired.items():
            counted[catalogue.STATE_EXPIRED.name, (state,)] += entities
        for (state, _), stored in tally.metrics.stored.items():
            if stored.reads:
                counted[catalogue.STORED_READS.name, (state,)] += stored.reads
        for step, messages in tally.late.items():
            counted[catalogue.LATE.name, step] += messages
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
        for name, slots in gauges:
            for slot, value in slots.items():
                self._of_states[name, *slot] = value
        for slot, stored in tally.metrics.stored.items():
            figures = {catalogue.STORED_ENTITIES.name: stored.entities}
            figures[catalogue.STORED_BYTES.name] = stored.bytes
            for name, value in figures.items():
                if value or (name, *slot) in self._of_states:  # most never have a local store
                    self._of_states[name, *slot] = value
        self._note_hot(tally, now_ns)

    def add_taken(self, sink: int, outputs: int) -> None:
        """Add outputs that the receiver of *sink* has taken."""
        self._figures[TAKEN, (sink,)] += outputs

    @property
    def taken(self) -> Counter[int]:
        """Outputs that receivers have taken, by sink."""
        figures = self._figures.items()
        return Counter({int(of[0]): n for (name, of), n in figures if name == TAKEN})

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
        counts = self._figures
        for metric in (
            catalogue.STEP_MESSAGES,
            catalogue.STEP_RESULTS,
            catalogue.SET_ASIDE,
            catalogue.UNKNOWN_KEY,
            catalogue.LATE,
            catalogue.STATE_EXPIRED,
            catalogue.STORED_READS,
        ):
            for (name, labels), value in counts.items():
                if name == metric.name:
                    yield Sample(metric, tuple(map(str, labels)), value)
        for (name, step), value in counts.items():
            if name == "timed":
                spent = Distribution((value,), counts["seconds", step])
                yield Sample(catalogue.STEP_SECONDS, tuple(map(str, step)), spent)
        yield from self._latencies(counts, pipelines)
        for metric in (
            catalogue.STATE_ENTITIES,
            catalogue.STORED_ENTITIES,
            catalogue.STORED_BYTES,
            catalogue.STATE_BYTES,
            catalogue.OPEN_WINDOWS,
        ):
            yield from self._of_state(metric)
        yield from self._watermarks()

    def _latencies(
        self, counts: Mapping[_Count, float], pipelines: Sequence[Sequence[str]]
    ) -> Iterator[Sample]:
        for source, names in enumerate(pipelines):
            places = [
                int(counts.get((catalogue.LATENCY.name, (source, place)), 0))
                for place in range(len(LATENCY_BOUNDS_S) + 1)
            ]
            total = counts.get((catalogue.LATENCY.name, (source, _LATENCY_SUM)), 0.0)
            for pipeline in names:
                yield Sample(catalogue.LATENCY, (pipeline,), Distribution(tuple(places), total))

    def _of_state(self, metric: Metric) -> Iterator[Sample]:
        totals = Counter[str]()
        for (name, state, _), value in self._of_states.items():
            if name == metric.name:
                totals[state] += value
        for state, total in totals.items():
            yield Sample(metric, (state,), total)

    def _watermarks(self) -> Iterator[Sample]:
        latest: dict[str, int] = {}
        for (name, state, _), value_ns in self._of_states.items():
            if name == catalogue.WATERMARK.name:
                latest[state] = max(value_ns, latest.get(state, value_ns))
        for state, value_ns in latest.items():
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
