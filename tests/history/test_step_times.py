"""Processor time of functions by step, on a clock that they move on."""

from __future__ import annotations

import gc
import random
from pathlib import Path

import pytest

from tests import random_applications
from tests.history import spent_time
from tests.history.harness import Recorded, random_messages
from tests.history.spent_time import spend
from wallaroo.gateway.damage import LOG
from wallaroo.history.records import records
from wallaroo.history.rehearsal import Rehearsal
from wallaroo.history.step_times import StepTimes, measured_overhead_ns
from wallaroo.resolution.application import resolve

STEP = ("pipeline", "step")


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    spent_time.use(monkeypatch)


@pytest.fixture
def times() -> StepTimes:
    made = StepTimes()
    made.step = STEP
    made.begin(1)
    return made


def test_times_are_added_up_by_step(times: StepTimes) -> None:
    call = times.timed(spend)
    call(2)
    call(3)
    times.step = ("pipeline", "other")
    call(7)
    assert times.taken() == (1, {STEP: 5_000, ("pipeline", "other"): 7_000})
    assert times.taken() == (0, {})


def test_a_call_that_raises_takes_time_too(times: StepTimes) -> None:
    def fails() -> None:
        spend(4)
        raise LookupError

    with pytest.raises(LookupError):
        times.timed(fails)()
    assert times.taken() == (1, {STEP: 4_000})


def test_waiting_is_no_processor_time(times: StepTimes) -> None:
    times.timed(lambda: spend(6, waiting=70_000))()
    assert times.taken() == (1, {STEP: 6_000})


def test_waiting_between_calls_does_not_count_against_a_call(times: StepTimes) -> None:
    spend(0, waiting=500)
    times.timed(lambda: spend(80))()
    assert times.taken() == (1, {STEP: 80_000})


def test_time_of_other_threads_counts(times: StepTimes) -> None:
    times.timed(lambda: spend(100, threads=3))()
    assert times.taken() == (1, {STEP: 300_000})


def test_the_time_of_the_measurement_is_subtracted(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 1_000_000, 90))
    monkeypatch.setattr("wallaroo.history.step_times.perf_counter_ns", lambda: next(ticks))
    assert measured_overhead_ns() == 90
    times = StepTimes(90)
    times.timed(lambda: next(ticks))()
    times.timed(lambda: None)()
    assert sum(times.taken()[1].values()) == 90


def test_garbage_is_not_collected_meanwhile(times: StepTimes) -> None:
    assert not times.timed(gc.isenabled)()
    assert gc.isenabled()


@pytest.mark.parametrize("seed", range(30))
def test_every_time_has_the_name_of_a_step(seed: int, tmp_path: Path) -> None:
    choose = random.Random(seed)
    application = resolve(random_applications.declared(choose))
    recorded = Recorded(tmp_path, application)
    recorded.run(random_messages(choose, application, 30))
    recorded.tick()
    recorded.close()
    times = StepTimes()
    Rehearsal(application, records(tmp_path / LOG), None, times).run()
    names = set[tuple[str, str]]()
    for pipeline in application.pipelines:
        steps = [step.name for step in pipeline.trunk.walk()]
        encoders = [pipeline.encoder_of(sink) for sink in pipeline.sinks]
        keys = [f"key of {step}" for step in steps]
        names.update((pipeline.name, one) for one in ("decoder", *steps, *keys, *encoders))
    messages, spent = times.taken()
    assert messages > 0
    assert spent.keys() <= names
