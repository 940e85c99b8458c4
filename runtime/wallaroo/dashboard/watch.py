"""Looks at a running application now and then, and keeps what it saw for some minutes."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from wallaroo.api.places import place_of
from wallaroo.dashboard.rates import percentile, rate
from wallaroo.engine.metrics import KnownError, TimedBatch
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.dead_letters.actions import DeadLetterActions
from wallaroo.gateway.internal_api.status import GatewayStatus
from wallaroo.metrics import catalogue
from wallaroo.metrics.catalogue import LATENCY_BOUNDS_S
from wallaroo.metrics.samples import Distribution, Sample, by_labels
from wallaroo.model.application import Application
from wallaroo.model.graph import graph_of

KEPT_S = 600.0
"""Seconds that points are kept for."""
_EVERY_S = 1.0
"""Pause between two looks while somebody watches."""
_ALONE_S = 5.0
"""The same while nobody does."""
_SHARE = 20
"""A look that takes long is followed by a pause so many times as long: it costs 5 % at most."""
_RATE_S = 5.0
"""Seconds that rates are taken over: batches come in lumps."""
_LATENCY_S = 15.0
"""Seconds that percentiles are taken over."""


class Watched(Protocol):
    """A running application."""

    @property
    def desk(self) -> DeadLetterActions:
        """Where its dead letters are seen to."""

    def status(self) -> GatewayStatus:
        """What its gateway has done and holds."""

    def samples(self) -> list[Sample]:
        """All figures."""

    def hot_keys(self) -> list[tuple[str, str, float]]:
        """State partition, key and recent messages of the keys with the most."""

    def batches(self) -> Sequence[TimedBatch]:
        """The last batches."""

    def errors(self) -> Sequence[KnownError]:
        """The last errors of user code."""

    def look_up(self, key: str) -> Mapping[str, Any]:
        """The state entities of *key* as of the last committed batch, as plain JSON values.

        `commit` has the number of that batch, and when it was committed; None where none was.
        `entities` has what is found: `state`, `key`, `entity`.
        """


class _Look(NamedTuple):
    at: float
    latency: Mapping[tuple[str, ...], Distribution]
    entered: Mapping[tuple[str, ...], float]
    left: Mapping[tuple[str, ...], float]
    accepted: Mapping[tuple[str, ...], float]
    delivered: Mapping[tuple[str, ...], float]


class Watch:
    """Looks at *watched* in a thread of its own.

    Args:
        application: What runs.
        watched: Where it runs.
    """

    def __init__(self, application: Application, watched: Watched) -> None:
        self._application = application
        self.watched = watched
        """What it looks at."""
        self._nodes = _nodes(application)
        self._states = graph_of(application).states
        self._looks: deque[_Look] = deque()
        self._points: deque[dict[str, Any]] = deque(maxlen=int(KEPT_S))
        self._last: dict[str, Any] | None = None
        self._changed = threading.Condition()
        self._stopping = False
        self._watched_at = 0.0
        self._began = time.time()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop looking, and wake whoever waits."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()

    @property
    def stopping(self) -> bool:
        """Whether nothing is going to change any more."""
        return self._stopping

    def application(self) -> dict[str, Any]:
        """What does not change: the graph, the bounds."""
        graph = graph_of(self._application)
        return {
            "name": graph.name,
            "groups": [
                {
                    "pipelines": group.pipelines,
                    "nodes": [_shown(node) for node in group.nodes],
                }
                for group in graph.groups
            ],
            "states": [_shown(node) for node in graph.states],
            "edges": [dataclasses.asdict(edge) for edge in graph.edges],
            "pipelines": [pipeline.name for pipeline in self._application.pipelines],
            "pid": os.getpid(),
            "functions": _functions(self._application),
        }

    def history(self) -> list[dict[str, Any]]:
        """The points of the last minutes, the oldest first."""
        with self._changed:
            return list(self._points)

    def now(self, after: float = 0.0, timeout_s: float = 0.0) -> dict[str, Any] | None:
        """What was seen last; where that is not after *after*, what is seen next."""
        with self._changed:
            if time.monotonic() - self._watched_at > 2 * _EVERY_S:
                self._changed.notify_all()  # somebody watches again: look now
            self._watched_at = time.monotonic()

            def fresh() -> bool:
                return self._stopping or (self._last is not None and self._last["time"] > after)

            return self._last if self._changed.wait_for(fresh, timeout_s) else None

    def _run(self) -> None:
        pause = 0.0
        while not self._wait(pause):
            began = time.monotonic()
            try:
                seen = self._look()
            except (RuntimeFailure, OSError):  # the gateway is away, or everything ends
                pause = _EVERY_S
                continue
            took = time.monotonic() - began
            with self._changed:
                self._last = seen
                self._points.append(seen["point"])
                while self._points[0]["time"] < seen["time"] - KEPT_S:
                    self._points.popleft()
                self._changed.notify_all()
                alone = began - self._watched_at > 2 * _ALONE_S
            pause = max(_ALONE_S if alone else _EVERY_S, _SHARE * took)

    def _wait(self, seconds: float) -> bool:
        """Wait; tells whether to stop."""
        deadline = time.monotonic() + seconds

        def due() -> bool:
            watched = time.monotonic() - self._watched_at < _EVERY_S
            return self._stopping or (watched and time.monotonic() > deadline - seconds + _EVERY_S)

        with self._changed:
            self._changed.wait_for(due, seconds)
            return self._stopping

    def _look(self) -> dict[str, Any]:
        status, samples = self.watched.status(), self.watched.samples()
        look = _Look(
            time.time(),
            by_labels(samples, catalogue.LATENCY),
            by_labels(samples, catalogue.STEP_MESSAGES),
            by_labels(samples, catalogue.STEP_RESULTS),
            by_labels(samples, catalogue.SOURCE_MESSAGES),
            by_labels(samples, catalogue.SINK_MESSAGES),
        )
        self._looks.append(look)
        while self._looks[0].at < look.at - _LATENCY_S and self._looks[0] is not self._looks[-2]:
            self._looks.popleft()
        before = self._before(_RATE_S)
        of = {sample.metric.name: sample.value for sample in samples if not sample.labels}
        return {
            "time": look.at,
            "began": self._began,
            "point": {
                "time": look.at,
                "pipelines": {
                    pipeline.name: self._pipeline(pipeline.name, before, look)
                    for pipeline in self._application.pipelines
                },
                "backlog": status.backlog,
                "backlog_s": status.waited_s,
                "undelivered": status.undelivered,
            },
            "nodes": self._of_nodes(samples, before, look),
            "sources": [
                dataclasses.asdict(source)
                | {"rate": _rate("accepted", (source.name,), before, look)}
                for source in status.sources
            ],
            "sinks": [
                {
                    "name": labels[0],
                    "delivered": count,
                    "waiting": by_labels(samples, catalogue.SINK_WAITING).get(labels, 0),
                    "rate": _rate("delivered", labels, before, look),
                }
                for labels, count in look.delivered.items()
            ],
            "backlog": {
                "messages": status.backlog,
                "bytes": status.backlog_bytes,
                "seconds": status.waited_s,
            },
            "connections": status.connections,
            "set_aside": status.set_aside,
            "dead_letters": status.dead_letters,
            "unknown_key": status.unknown_key,
            "late": status.late,
            "workers": {
                "wanted": of.get(catalogue.WORKERS_WANTED.name),
                "alive": of.get(catalogue.WORKERS_ALIVE.name),
            },
            "checkpoint_age_s": of.get(catalogue.CHECKPOINT_AGE.name),
            "batch_limit_s": of.get(catalogue.BATCH_LIMIT.name),
            "batch_fixed_s": of.get(catalogue.BATCH_FIXED.name),
            "restarts": of.get(catalogue.QUERY_RESTARTS.name),
            "hot_keys": self.watched.hot_keys(),
            "errors": [
                {
                    "pipeline": known.example.pipeline,
                    "step": known.example.step,
                    "place": known.example.place,
                    "error": known.example.error,
                    "message": known.example.message,
                    "count": known.count,
                    "at": known.at,
                }
                for known in self.watched.errors()
            ],
            "batches": [_batch(batch) for batch in self.watched.batches()],
        }

    def _before(self, seconds: float) -> _Look:
        """The last look that is at least so long ago; the first of all while there is none."""
        now = self._looks[-1].at
        old = [look for look in self._looks if look.at <= now - seconds]
        return old[-1] if old else self._looks[0]

    def _pipeline(self, name: str, before: _Look, look: _Look) -> dict[str, Any]:
        first = self._looks[0]
        counts = look.latency[name,].counts
        earlier = first.latency[name,].counts if look is not first else (0,) * len(counts)
        recent = [now - then for now, then in zip(counts, earlier, strict=True)]

        def at(part: float) -> float | None:
            return percentile(part, recent, LATENCY_BOUNDS_S)

        seconds = look.at - before.at
        return {
            "in": rate(sum(before.latency[name,].counts), sum(counts), seconds),
            "out": _rate("left", (name, "encoder"), before, look),
            "p50": at(0.5),
            "p95": at(0.95),
            "p99": at(0.99),
            "messages": sum(counts),
        }

    def _of_nodes(
        self, samples: Sequence[Sample], before: _Look, look: _Look
    ) -> dict[str, dict[str, float | None]]:
        spent = by_labels(samples, catalogue.STEP_SECONDS)
        aside = by_labels(samples, catalogue.SET_ASIDE)
        found: dict[str, dict[str, float | None]] = {}
        for node, steps in self._nodes.items():
            timed = [spent[step] for step in steps if step in spent]
            count = sum(value.counts[0] for value in timed)
            found[node] = {
                "rate": sum(_rate("left", step, before, look) for step in steps),
                "in": sum(look.entered.get(step, 0) for step in steps),
                "out": sum(look.left.get(step, 0) for step in steps),
                "set_aside": sum(aside.get(step, 0) for step in steps),
                "microseconds": 1e6 * sum(value.sum for value in timed) / count if count else None,
            }
        entities_of = by_labels(samples, catalogue.STATE_ENTITIES)
        for state in self._states:
            entities = entities_of.get((state.name,), 0)
            found[state.id] = {"entities": entities}
        return found


def _rate(what: str, labels: tuple[str, ...], before: _Look, look: _Look) -> float:
    was, now = getattr(before, what).get(labels, 0), getattr(look, what).get(labels, 0)
    return rate(was, now, look.at - before.at)


def _nodes(application: Application) -> dict[str, list[tuple[str, str]]]:
    """For each node of the graph that messages go through: the steps, by pipeline, that it is."""
    nodes: dict[str, list[tuple[str, str]]] = {}
    for group in graph_of(application).groups:
        for node in group.nodes:
            pipelines: Sequence[str] = group.pipelines
            step = node.name
            if node.kind == "source":
                step = "decoder"
                pipelines = [p.name for p in application.pipelines if p.source.name == node.name]
            elif node.kind == "sink":
                step = "encoder"
            nodes[node.id] = [(pipeline, step) for pipeline in dict.fromkeys(pipelines)]
    return nodes


def _functions(application: Application) -> dict[str, str]:
    """Pipeline and step of each function of the application's code, by its place."""
    functions: dict[str, str] = {}
    for pipeline in application.pipelines:
        parts = [("decoder", pipeline.source.place)]
        for step in pipeline.trunk.walk():
            parts.append((step.name, step.place))
            if (key := getattr(step, "key", None)) is not None:
                parts.append((f"key of {step.name}", place_of(key)))
        parts += [("encoder", sink.place) for sink in pipeline.sinks]
        for name, place in parts:
            functions.setdefault(str(place), f"{pipeline.name} · {name}")
    return functions


def _shown(node: Any) -> dict[str, Any]:
    return dataclasses.asdict(node) | {"place": str(node.place)}


def _batch(batch: TimedBatch) -> dict[str, Any]:
    progress = batch.progress
    return {
        "number": progress.number,
        "messages": batch.messages,
        "started": progress.started,
        "phases": dict(progress.phases),
    }
