"""The rule by which workers follow the load, over simulated hours."""

from __future__ import annotations

import bisect
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from wallaroo.run.kubernetes.scaling_rule import Decision, Reading, ScalingRule, ScalingSettings

STEP_S = 5.0
HOUR_S = 3600.0
SETTINGS = ScalingSettings(minimum=1, maximum=8, cores=0.5)
Rate = Callable[[float], float]
"""Messages that arrive per second, by time."""


def constant(rate: float) -> Rate:
    return lambda _: rate


@dataclass
class Application:
    """An application whose workers use the cores that they request, and no more.

    A worker does 500 messages a second: each costs a millisecond of processor time, a tenth of it
    in the first stage.
    """

    arrives: Rate
    settings: ScalingSettings = SETTINGS
    workers: int = 1
    cost_s: float = 0.001
    first_stage: float = 0.1
    """Share of the first stage, which is one process."""
    starts_s: float = 10.0
    """Seconds until an executor is there; the stream goes on meanwhile."""
    stands_s: float = 12.0
    """Seconds for which the stream stops at a change."""
    bound: float = math.inf
    """Messages per second that a slow receiver takes."""
    outage: tuple[float, float] = (-1.0, -1.0)
    """When no query runs, from and to."""
    reports: bool = False
    """Whether nobody carries out what is decided."""
    seed: int = 1
    backlog: float = 0.0
    processed: float = 0.0
    used: dict[str, float] = field(default_factory=dict)
    busy: dict[int, float] = field(default_factory=dict)
    changes: list[tuple[float, int]] = field(default_factory=list)
    backlogs: list[float] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    def run(self, hours: float) -> Application:
        rule, noise = ScalingRule(self.settings), random.Random(self.seed)
        wanted, running, there_at, stands_until = self.workers, self.workers, 0.0, 0.0
        names = executors(running)
        for step in range(int(hours * HOUR_S / STEP_S)):
            at = step * STEP_S
            if running != wanted and at >= there_at:
                running, stands_until = wanted, at + self.stands_s
                names = executors(running)
            stands = at < stands_until or self.outage[0] <= at < self.outage[1]
            self._pass(at, 0 if stands else running, names, noise)
            if stands:
                rule.reset()
                continue
            reading = Reading(
                at, self.processed, self.backlog, wanted, running, dict(self.used), dict(self.busy)
            )
            decision = rule.decide(reading)
            self.decisions.append(decision)
            if decision.workers != wanted:
                self.changes.append((at, decision.workers))
                if not self.reports:
                    wanted, there_at = decision.workers, at + self.starts_s
        return self

    def _pass(self, at: float, workers: int, names: list[str], noise: random.Random) -> None:
        """The time of a step passes."""
        self.backlog += max(0.0, self.arrives(at) * noise.uniform(0.95, 1.05)) * STEP_S
        most = min(workers * self.settings.cores / self.cost_s, self.bound)
        if self.first_stage:
            most = min(most, 1 / (self.cost_s * self.first_stage))
        done = min(self.backlog, most * STEP_S)
        self.backlog -= done
        self.processed += done
        self.backlogs.append(self.backlog)
        seconds = done * self.cost_s
        for name in names[:workers]:
            self.used[name] = self.used.get(name, 0.0) + seconds / workers + 0.02 * STEP_S
        shares = {-1: self.first_stage, **dict.fromkeys(range(8), (1 - self.first_stage) / 8)}
        for role, share in shares.items():
            self.busy[role] = self.busy.get(role, 0.0) + seconds * share


def executors(running: int) -> list[str]:
    """Names of executors."""
    return [f"executor-{number}" for number in range(running)]


def numbers(application: Application) -> list[int]:
    """The numbers of workers, one after the other."""
    return [number for _, number in application.changes]


def test_a_rising_load_gets_workers_once_and_the_backlog_is_caught_up() -> None:
    risen = Application(lambda at: 100 if at < 600 else 1500).run(hours=1)
    ((at, workers),) = risen.changes
    assert workers == 5, "1,500 messages a second are 1.5 cores, of which a worker has 0.5 at 70 %"
    assert 630 <= at <= 660, "30 s after it rose, as 15 s average it"
    assert max(risen.backlogs) < 1500 * 60
    assert risen.backlogs[int(1200 / STEP_S)] == 0, "ten minutes after it rose"


def test_a_falling_load_gives_workers_up_after_minutes() -> None:
    fallen = Application(lambda at: 1500 if at < HOUR_S else 100, workers=5).run(hours=3)
    assert numbers(fallen)[-1] == 1
    assert len(fallen.changes) <= 2
    assert fallen.changes[0][0] >= HOUR_S + 300
    assert fallen.changes[-1][0] <= HOUR_S + 2 * 300 + 120


def test_the_bounds_hold_whatever_the_load() -> None:
    few = replace(SETTINGS, minimum=2, maximum=3)
    loaded = Application(constant(3000), few, workers=2).run(hours=1)
    assert numbers(loaded) == [3]
    assert "(at most 3)" in loaded.decisions[-1].reason
    idle = Application(constant(0), few, workers=3).run(hours=1)
    assert numbers(idle) == [2]
    assert idle.decisions[-1].needed == 1
    assert "1 worker of 0.5 at 70% (at least 2)" in idle.decisions[-1].reason


def test_short_bursts_change_nothing() -> None:
    bursts = Application(lambda at: 2000 if at % 600 < 20 else 200).run(hours=12)
    assert bursts.changes == []
    assert bursts.backlog == 0


def test_the_wave_of_a_day_is_followed_in_few_changes() -> None:
    wave = Application(lambda at: 1200 + 1000 * math.sin(2 * math.pi * at / 86400), workers=4)
    wave.run(hours=48)
    assert len(wave.changes) <= 24, "up to eight workers and down again, twice"
    assert (min(numbers(wave)), max(numbers(wave))) == (1, 7)
    assert max(wave.backlogs) < 90_000, "what arrives in some 40 s at its highest"


def test_a_backlog_after_an_outage_is_processed_with_more_workers_that_then_leave() -> None:
    restored = Application(constant(600), workers=2, outage=(600, 4200)).run(hours=6)
    assert numbers(restored)[0] == 8
    assert numbers(restored)[-1] in {2, 3}, "enough for what arrives"
    assert len(restored.changes) <= 4
    assert restored.backlogs[int(6000 / STEP_S)] == 0, "an hour's messages, half an hour later"


@pytest.mark.parametrize("period_s", [60, 600, 1500, 5400])
def test_slow_noise_does_not_move_workers_to_and_fro(period_s: float) -> None:
    noisy = Application(lambda at: 700 * (1 + 0.09 * math.sin(2 * math.pi * at / period_s)))
    noisy.run(hours=8)
    assert len(noisy.changes) <= 2


def test_a_slow_receiver_is_no_reason_for_more_workers() -> None:
    slow = Application(constant(1000), workers=2, bound=300).run(hours=4)
    assert slow.changes == []
    assert slow.decisions[-1].reason.endswith("of its cores")


def test_a_process_that_has_no_core_left_is_no_reason_for_the_most_workers() -> None:
    alone = Application(constant(3000), workers=2, first_stage=0.8).run(hours=4)
    assert alone.backlog > 1_000_000
    assert numbers(alone) == [4], "for 1.25 cores, as fast as the first stage is"


def test_where_no_query_runs_for_the_load_nothing_is_decided() -> None:
    rule = ScalingRule(SETTINGS)
    for step in range(30):
        decision = rule.decide(Reading(step * 5.0, 100, step * 5000, 2, 2, {"a": 1}, {0: 1}))
        assert decision.workers == 2
    assert decision.reason in {
        "the load is being measured",
        "messages are waiting and none is processed, which is not overload",
    }


def test_workers_that_are_not_there_yet_are_waited_for() -> None:
    full = Application(constant(1500), workers=1, starts_s=600).run(hours=0.25)
    ((_, _), *later) = full.changes
    assert all(at > 600 for at, _ in later), "although the backlog grows meanwhile"


def test_without_processor_time_nothing_is_decided() -> None:
    rule = ScalingRule(SETTINGS)
    rule.decide(Reading(0, 0, 0, 1, 1, {}, {}))
    decision = rule.decide(Reading(15, 9, 9, 1, 1, {}, {}))
    assert (decision.workers, decision.needed) == (1, None)
    assert decision.reason == "the workers' processor time is not known"


def test_reports_alone_speak_of_the_workers_that_there_are() -> None:
    reported = Application(constant(1900), workers=4, reports=True).run(hours=1)
    assert {number for _, number in reported.changes} == {6, 7}


pieces = st.lists(st.tuples(st.integers(60, 1800), st.floats(0, 2500)), min_size=1, max_size=8)


@settings(max_examples=20, deadline=None, phases=[Phase.generate])  # it is long to shrink
@given(pieces, st.floats(20, 2000), st.integers(1, 8), st.integers())
def test_any_load_that_becomes_steady_is_followed_and_then_left_alone(
    load: list[tuple[int, float]], last: float, workers: int, seed: int
) -> None:
    ends = list(itertools.accumulate(seconds for seconds, _ in load))

    def arrives(at: float) -> float:
        place = bisect.bisect_right(ends, at)
        return load[place][1] if place < len(load) else last

    hours = ends[-1] / HOUR_S + 2
    application = Application(arrives, workers=workers, seed=seed).run(hours)
    before = -math.inf
    for (at, number), known in zip(
        application.changes, [workers, *numbers(application)], strict=False
    ):
        assert number != known
        assert SETTINGS.minimum <= number <= SETTINGS.maximum
        assert at - before >= (SETTINGS.up_after_s if number > known else SETTINGS.down_after_s)
        before = at
    steady_s = (hours - 1) * HOUR_S
    late = [number for at, number in application.changes if at > steady_s]
    assert len(late) <= 1, "an hour after the load has become steady"
    assert application.backlog == 0
    running = (numbers(application) or [workers])[-1]
    needed = (last * application.cost_s + 0.02 * running) / SETTINGS.cores
    assert needed / SETTINGS.limit * 0.9 <= running <= needed * 1.1 / SETTINGS.target + 1.1
