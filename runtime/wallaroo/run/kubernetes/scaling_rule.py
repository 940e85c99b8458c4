"""The rule by which the number of workers follows the load: readings in, decisions out.

What there is to do takes so many cores, and a worker has so many. The rule has neither clock nor
input, so that it can be simulated over hours.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self


@dataclass(frozen=True, kw_only=True)
class ScalingSettings:
    """How the number of workers follows the load."""

    minimum: int
    """Workers at least."""
    maximum: int
    """Workers at most; more than partitions would have nothing to do."""
    cores: float = 1.0
    """Cores that a worker requests. It may use more on a node that is not full, which is not to be
    relied on."""
    target: float = 0.7
    """Share of its cores that a worker is to use. The rest is for uneven shares: no worker can have
    a part of a partition."""
    limit: float = 0.85
    """Share from which on there are to be more workers. Between it and the target nothing changes:
    after a change the load must rise by a fifth, or fall below the target of one worker fewer."""
    up_after_s: float = 30.0
    """Seconds for which more workers must be needed all the time, longer than most bursts."""
    down_after_s: float = 300.0
    """Seconds for which fewer must be enough all the time: it is better to have a worker too many
    than to stop the stream twice."""
    catch_up_s: float = 300.0
    """Seconds within which the backlog is to be processed, besides what arrives."""
    restart_s: float = 15.0
    """Seconds for which a change stops the stream: 5 to 12 were measured. What arrives meanwhile
    counts as backlog."""
    over_s: float = 15.0
    """Seconds over which rates are averaged: several readings, and reports of processes."""
    reports_only: bool = False
    """Whether decisions are reported, and nobody carries them out."""

    @classmethod
    def of(cls, data: Mapping[str, str]) -> Self | None:
        """What the *data* of a ConfigMap says; None if the number is fixed, or it is wrong."""
        try:
            return cls(
                minimum=int(data["min"]),
                maximum=int(data["max"]),
                up_after_s=float(data["upAfterSeconds"]),
                down_after_s=float(data["downAfterSeconds"]),
                reports_only=data["mode"] == "report",
            )
        except (KeyError, ValueError):
            return None


class Reading(NamedTuple):
    """What is known at a moment; all times and messages are totals, of which differences count."""

    at_s: float
    """The moment, in seconds."""
    processed: float
    """Messages processed."""
    backlog: float
    """Messages waiting now, in the journal or in topics."""
    workers: int
    """Workers requested now."""
    running: int
    """Workers that are there now."""
    used_s: Mapping[str, float]
    """Seconds of processor time of each worker, with its Java."""
    busy_s: Mapping[int, float]
    """Seconds of processor time of each process: the first stage, and the partitions."""


class Load(NamedTuple):
    """What the readings of `ScalingSettings.over_s` say."""

    arriving_per_s: float
    """Messages that arrive per second."""
    backlog: float
    """Messages waiting."""
    used_cores: float
    """Cores that the workers use."""
    busiest: float
    """Share of its cores that the busiest worker uses."""
    needed_cores: float
    """Cores that what arrives and the backlog need."""


class Decision(NamedTuple):
    """How many workers there are to be, and why."""

    workers: int
    """As many as are requested already, if nothing is to change."""
    reason: str
    """Why, as a sentence without a full stop."""
    needed: int | None = None
    """Workers that the load needs, whatever the bounds; None if that is not known."""
    load: Load | None = None
    """The load; None if it is not known."""


class ScalingRule:
    """Decides on the number of workers, from one reading to the next.

    Example:
        >>> rule = ScalingRule(ScalingSettings(minimum=1, maximum=8, up_after_s=0, over_s=10))
        >>> rule.decide(Reading(0, 0, 0, 1, 1, {"a": 0}, {0: 0})).reason
        'the load is being measured'
        >>> decision = rule.decide(Reading(10, 10_000, 3_000, 1, 1, {"a": 10}, {0: 4, 1: 4}))
        >>> decision.workers, decision.needed
        (2, 2)
    """

    def __init__(self, settings: ScalingSettings) -> None:
        self._settings = settings
        self._readings: deque[Reading] = deque()
        """The last of them, the first of which is `over_s` old."""
        self._wanted: deque[tuple[float, int]] = deque()
        """How many workers they spoke for, and when."""

    def reset(self) -> None:
        """Start measuring again: the query has stopped, and older readings no longer apply."""
        self._readings.clear()
        self._wanted.clear()

    def decide(self, now: Reading) -> Decision:
        """Decide after *now*, which is later than all readings before."""
        last = self._readings[-1] if self._readings else now
        if (last.workers, last.running) != (now.workers, now.running):
            self.reset()
        self._readings.append(now)
        while (
            len(self._readings) > 1 and now.at_s - self._readings[1].at_s >= self._settings.over_s
        ):
            self._readings.popleft()
        before = self._readings[0]
        if now.at_s - before.at_s < self._settings.over_s:
            return Decision(now.workers, "the load is being measured")
        if not before.used_s:
            return Decision(now.workers, "the workers' processor time is not known")
        if (load := self._load(before, now)) is None:
            self.reset()
            return Decision(
                now.workers, "messages are waiting and none is processed, which is not overload"
            )
        return self._judge(now, load)

    def _load(self, before: Reading, now: Reading) -> Load | None:
        """The load between two readings; None if it says nothing about what messages cost."""
        settings, seconds = self._settings, now.at_s - before.at_s
        processed = (now.processed - before.processed) / seconds
        arriving = max(0.0, processed + (now.backlog - before.backlog) / seconds)
        used = _rates(before.used_s, now.used_s, seconds)
        cores = sum(used)
        demanded = arriving + (now.backlog + arriving * settings.restart_s) / settings.catch_up_s
        if processed > 0:
            # a process has one core, however many workers there are
            alone = max(_rates(before.busy_s, now.busy_s, seconds), default=0.0)
            possible = processed / min(alone, 1.0) if alone > 0 else math.inf
            needed = cores * min(demanded, possible) / processed
        elif now.backlog > 0:
            return None
        else:
            needed = cores
        busiest = max(used, default=0.0) / settings.cores
        return Load(arriving, now.backlog, cores, busiest, needed)

    def _judge(self, now: Reading, load: Load) -> Decision:
        settings, workers = self._settings, now.workers
        needed = max(1, math.ceil(load.needed_cores / (settings.cores * settings.target) - 1e-9))
        bounded = min(max(needed, settings.minimum), settings.maximum)
        is_overloaded = load.needed_cores > settings.limit * settings.cores * workers
        is_busy = load.busiest > settings.target
        wanted = workers
        if bounded < workers or (is_overloaded and is_busy and now.running >= workers):
            wanted = bounded
        self._wanted.append((now.at_s, wanted))
        while now.at_s - self._wanted[0][0] > settings.down_after_s + settings.up_after_s:
            self._wanted.popleft()
        why = self._in_words(needed, load)

        def decided(number: int, reason: str = "") -> Decision:
            return Decision(number, f"{why}{reason}", needed, load)

        up, down = self._last(settings.up_after_s), self._last(settings.down_after_s)
        if up and min(up) > workers:
            self.reset()
            return decided(wanted, f", for {settings.up_after_s:g} s")
        if down and max(down) < workers:
            self.reset()
            return decided(max(down), f", for {settings.down_after_s:g} s")
        if is_overloaded and not is_busy:
            return decided(workers, f", but the busiest uses {load.busiest:.0%} of its cores")
        if wanted != workers:
            seconds = settings.up_after_s if wanted > workers else settings.down_after_s
            return decided(workers, f", which counts after {seconds:g} s")
        return decided(workers)

    def _last(self, seconds: float) -> list[int]:
        """What the readings of the last *seconds* spoke for; empty if there are too few."""
        since = self._wanted[-1][0] - seconds
        if self._wanted[0][0] > since:
            return []
        return [number for at, number in self._wanted if at >= since]

    def _in_words(self, needed: int, load: Load) -> str:
        settings = self._settings
        backlog = f" and {load.backlog:,.0f} waiting" if load.backlog else ""
        bounds = ""
        if needed > settings.maximum:
            bounds = f" (at most {settings.maximum})"
        elif needed < settings.minimum:
            bounds = f" (at least {settings.minimum})"
        return (
            f"{load.arriving_per_s:,.0f} messages/s{backlog} need {load.needed_cores:.2f} cores: "
            f"{needed} {'worker' if needed == 1 else 'workers'} of {settings.cores:g} at "
            f"{settings.target:.0%}{bounds}"
        )


def _rates(before: Mapping[Any, float], now: Mapping[Any, float], seconds: float) -> list[float]:
    """The increase per second of each total that both have."""
    return [max(0.0, now[one] - before[one]) / seconds for one in now if one in before]
