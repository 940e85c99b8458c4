"""Polls a running application, and keeps the results of the last minutes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wallaroo.dashboard.application import Watched
from wallaroo.dashboard.functions import functions_of
from wallaroo.dashboard.nodes import nodes_of
from wallaroo.dashboard.rates import percentile, rate
from wallaroo.errors import RuntimeFailure
from wallaroo.graphs.graph import graph_of
from wallaroo.metrics import catalogue
from wallaroo.metrics.catalogue import LATENCY_BOUNDS_S
from wallaroo.metrics.samples import Distribution, Sample, by_labels
from wallaroo.model.application import Application, Pipeline
from wallaroo.model.joins import Join
from wallaroo.wire.chunk_messages import Publication

KEPT_S = 600.0
"""Seconds for which points are kept."""
_VIEWED_PAUSE_S = 1.0
"""Pause between two polls while the dashboard is viewed."""
_UNVIEWED_PAUSE_S = 5.0
"""Pause between two polls otherwise."""
_PAUSE_FACTOR = 20
"""A slow poll is followed by a pause this many times as long, which bounds its cost to 5 %."""
_RATE_WINDOW_S = 5.0
"""Seconds over which rates are averaged: publications make counters jump."""
_LATENCY_WINDOW_S = 15.0
"""Seconds over which percentiles are computed."""


class _Reading(NamedTuple):
    """The counters and histograms of one poll, by their labels."""

    at: float
    latency: Mapping[tuple[str, ...], Distribution]
    entered: Mapping[tuple[str, ...], float]
    left: Mapping[tuple[str, ...], float]
    accepted: Mapping[tuple[str, ...], float]
    delivered: Mapping[tuple[str, ...], float]


class Watch:
    """Polls *watched* in a separate thread.

    Args:
        application: The application.
        watched: Its run.
    """

    def __init__(self, application: Application, watched: Watched) -> None:
        self._application = application
        self.watched = watched
        """The run that is polled."""
        self._nodes = nodes_of(application)
        self._states = graph_of(application).states
        self._version = 1
        """Counts the applications that the run has gone on as."""
        self._polling = threading.Lock()
        """Held while the application is asked, and while it is replaced."""
        self._readings: deque[_Reading] = deque()
        self._points: deque[dict[str, Any]] = deque(maxlen=int(KEPT_S))
        self._last: dict[str, Any] | None = None
        self._changed = threading.Condition()
        self._stopping = False
        self._asked = False
        """Whether the next poll is to be at once."""
        self._viewed_at = 0.0
        self._began = time.time()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop polling, and wake all waiting threads."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()

    @contextlib.contextmanager
    def replaced_by(self, application: Application) -> Iterator[None]:
        """Within the block, do not poll, because the run goes on as *application*."""
        with self._polling:
            yield
            self._application = application
            self._version += 1
            self._nodes = nodes_of(application)
            self._states = graph_of(application).states
            self._readings.clear()  # of pipelines and steps that may be gone

    @property
    def stopping(self) -> bool:
        """Whether polling has stopped, so that nothing will change."""
        return self._stopping

    def states(self) -> Collection[str]:
        """Names of the application's states."""
        return self._application.partitions.keys()

    def application(self) -> dict[str, Any]:
        """The constant part: name, graph, pipelines, functions."""
        graph = graph_of(self._application)
        return {
            "name": graph.name,
            "version": self._version,
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
            "functions": functions_of(self._application),
        }

    def history(self) -> list[dict[str, Any]]:
        """The points of the last ten minutes, the oldest first."""
        with self._changed:
            return list(self._points)

    def now(self, after: float = 0.0, timeout_s: float = 0.0) -> dict[str, Any] | None:
        """The last result, or the next one if the last is not later than *after*.

        Returns:
            None if there is no such result within *timeout_s*. Once polling has stopped, the last
            result.
        """
        with self._changed:
            if time.monotonic() - self._viewed_at > 2 * _VIEWED_PAUSE_S:
                self._changed.notify_all()  # viewed again: poll now
            self._viewed_at = time.monotonic()

            def fresh() -> bool:
                return self._stopping or (self._last is not None and self._last["time"] > after)

            return self._last if self._changed.wait_for(fresh, timeout_s) else None

    def poll_now(self) -> None:
        """Poll at once, because something was changed."""
        with self._changed:
            self._asked = True
            self._changed.notify_all()

    def _run(self) -> None:
        pause = 0.0
        while not self._wait(pause):
            began = time.monotonic()
            self._asked = False
            try:
                with self._polling:
                    result = self._poll()
            except (RuntimeFailure, OSError) as error:  # the gateway is away, or the run ends
                self._note_away(str(error))
                pause = _VIEWED_PAUSE_S
                continue
            took = time.monotonic() - began
            with self._changed:
                self._last = result
                self._points.append(result["point"])
                while self._points[0]["time"] < result["time"] - KEPT_S:
                    self._points.popleft()
                self._changed.notify_all()
                unviewed = began - self._viewed_at > 2 * _UNVIEWED_PAUSE_S
            pause = max(_UNVIEWED_PAUSE_S if unviewed else _VIEWED_PAUSE_S, _PAUSE_FACTOR * took)

    def _note_away(self, reason: str) -> None:
        """Let the last result tell why there is no later one."""
        with self._changed:
            if self._last is not None:
                self._last = self._last | {"time": time.time(), "away": reason}
                self._points.append({"time": self._last["time"], "pipelines": {}})
                self._changed.notify_all()

    def _wait(self, seconds: float) -> bool:
        """Wait, less long if the dashboard is viewed meanwhile; returns whether to stop."""
        earliest = time.monotonic() + _VIEWED_PAUSE_S

        def due() -> bool:
            viewed = time.monotonic() - self._viewed_at < _VIEWED_PAUSE_S
            return self._stopping or self._asked or (viewed and time.monotonic() > earliest)

        with self._changed:
            self._changed.wait_for(due, seconds)
            return self._stopping

    def _poll(self) -> dict[str, Any]:
        status, samples = self.watched.gateway.status(), self.watched.samples()
        figures = self.watched.engine.figures
        now = _Reading(
            time.time(),
            by_labels(samples, catalogue.LATENCY),
            by_labels(samples, catalogue.STEP_MESSAGES),
            by_labels(samples, catalogue.STEP_RESULTS),
            by_labels(samples, catalogue.SOURCE_MESSAGES),
            by_labels(samples, catalogue.SINK_MESSAGES),
        )
        self._readings.append(now)
        oldest = now.at - _LATENCY_WINDOW_S
        while self._readings[0].at < oldest and self._readings[0] is not self._readings[-2]:
            self._readings.popleft()
        before = self._before(_RATE_WINDOW_S)
        of = {sample.metric.name: sample.value for sample in samples if not sample.labels}
        waiting = by_labels(samples, catalogue.SINK_WAITING)
        return {
            "time": now.at,
            "version": self._version,
            "began": self._began,
            "away": None,
            "paused_since": self.watched.pause.since,
            "interruption": self.watched.engine.interruption(),
            "point": {
                "time": now.at,
                "pipelines": {
                    pipeline.name: self._pipeline(pipeline, before, now)
                    for pipeline in self._application.pipelines
                },
                "backlog": status.backlog,
                "backlog_s": status.waited_s,
                "undelivered": status.undelivered,
            },
            "nodes": self._of_nodes(samples, before, now),
            "sources": [
                dataclasses.asdict(source)
                | {"rate": _rate("accepted", (source.name,), before, now)}
                for source in status.sources
            ],
            "sinks": [
                dataclasses.asdict(sink)
                | {
                    "delivered": now.delivered.get((sink.name,), 0),
                    "waiting": waiting.get((sink.name,), 0),
                    "rate": _rate("delivered", (sink.name,), before, now),
                }
                for sink in status.sinks
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
            "windows": self._of_windows(samples),
            "workers": {
                "wanted": of.get(catalogue.WORKERS_WANTED.name),
                "alive": of.get(catalogue.WORKERS_ALIVE.name),
            },
            "publication_age_s": of.get(catalogue.PUBLICATION_AGE.name),
            "epochs": _epochs(of),
            "query_restarts": of.get(catalogue.QUERY_RESTARTS.name),
            "restarts": _restarts(self.watched),
            "hot_keys": [one._asdict() for one in self.watched.gateway.hot_keys()],
            "errors": [
                {
                    "pipeline": known.example.pipeline,
                    "step": known.example.step,
                    "place": known.example.place,
                    "error": known.example.error,
                    "message": known.example.message,
                    "count": known.count,
                    "first": known.first,
                    "last": known.last,
                }
                for known in figures.errors()
            ],
            "publications": [_publication(one) for one in figures.publications()],
        }

    def _before(self, seconds: float) -> _Reading:
        """The last reading at least *seconds* before the latest; if there is none, the first."""
        latest = self._readings[-1].at
        old = [reading for reading in self._readings if reading.at <= latest - seconds]
        return old[-1] if old else self._readings[0]

    def _pipeline(self, pipeline: Pipeline, before: _Reading, now: _Reading) -> dict[str, Any]:
        first, name = self._readings[0], pipeline.name
        counts = now.latency[name,].counts
        earlier = first.latency[name,].counts if now is not first else (0,) * len(counts)
        recent = [later - then for later, then in zip(counts, earlier, strict=True)]

        def at(part: float) -> float | None:
            return percentile(part, recent, LATENCY_BOUNDS_S)

        seconds = now.at - before.at
        return {
            "in": rate(sum(before.latency[name,].counts), sum(counts), seconds),
            "out": sum(
                _rate("left", (name, pipeline.encoder_of(sink)), before, now)
                for sink in pipeline.sinks
            ),
            "p50": at(0.5),
            "p95": at(0.95),
            "p99": at(0.99),
            "messages": sum(counts),
        }

    def _of_nodes(
        self, samples: Sequence[Sample], before: _Reading, now: _Reading
    ) -> dict[str, dict[str, float | None]]:
        spent = by_labels(samples, catalogue.STEP_SECONDS)
        set_aside = by_labels(samples, catalogue.SET_ASIDE)
        late = by_labels(samples, catalogue.LATE)
        found: dict[str, dict[str, float | None]] = {}
        for node, (steps, extractions) in self._nodes.items():
            timed = [spent[step] for step in steps if step in spent]
            count = sum(value.counts[0] for value in timed)
            found[node] = {
                "rate": sum(_rate("left", step, before, now) for step in steps),
                "in": sum(now.entered.get(step, 0) for step in steps),
                "out": sum(now.left.get(step, 0) for step in steps),
                "set_aside": sum(set_aside.get(step, 0) for step in steps + extractions),
                "late": sum(late.get(step, 0) for step in steps),
                "microseconds": 1e6 * sum(value.sum for value in timed) / count if count else None,
            }
        entities_of = by_labels(samples, catalogue.STATE_ENTITIES)
        open_of = by_labels(samples, catalogue.OPEN_WINDOWS)
        for state in self._states:
            found[state.id] = {"entities": entities_of.get((state.name,), 0)}
            if (state.name,) in open_of:
                windows = self._application.partitions[state.name].windows
                what = "kept_messages" if isinstance(windows, Join) else "open_windows"
                found[state.id][what] = open_of[state.name,]
        return found

    def _of_windows(self, samples: Sequence[Sample]) -> dict[str, Any] | None:
        """The open windows of all states, and the latest watermark; None without windows.

        The messages that joins keep count as windows.
        """
        partitions = self._application.partitions.values()
        kinds = {isinstance(of.windows, Join) for of in partitions if of.windows is not None}
        if not kinds:
            return None
        watermarks = by_labels(samples, catalogue.WATERMARK).values()
        return {
            "of_joins": kinds == {True},
            "open": sum(by_labels(samples, catalogue.OPEN_WINDOWS).values()),
            "watermark_s": max(watermarks, default=None),
        }


def _rate(counter: str, labels: tuple[str, ...], before: _Reading, now: _Reading) -> float:
    earlier, later = (getattr(reading, counter).get(labels, 0) for reading in (before, now))
    return rate(earlier, later, now.at - before.at)


def _shown(node: Any) -> dict[str, Any]:
    return dataclasses.asdict(node) | {"place": str(node.place)}


def _restarts(watched: Watched) -> list[dict[str, Any]]:
    """The last restarts of the query and the gateway, the newest first."""
    found = [one._asdict() | {"part": "query"} for one in watched.engine.restarts()]
    found += [one._asdict() | {"part": "gateway"} for one in watched.gateway_restarts()]
    return sorted(found, key=lambda one: -one["at"])


def _epochs(of: Mapping[str, Any]) -> dict[str, float] | None:
    """What is known of the epochs; None while the engine does not answer."""
    ended: Distribution | None = of.get(catalogue.EPOCH_SECONDS.name)
    if ended is None:
        return None
    age_s = of[catalogue.EPOCH_AGE.name]
    return {"ended": sum(ended.counts), "stood_s": ended.sum, "age_s": age_s}


def _publication(publication: Publication) -> dict[str, Any]:
    return {
        "number": publication.last,
        "messages": publication.messages,
        "started": publication.started,
        "phases": {"run": publication.run_s, "commit": publication.commit_s},
    }
