"""Timers and expiry on Spark: as in the simulation, also where a run ends between two calls."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.applications import timing
from tests.spark.in_process import InProcess
from wallaroo.model.loader import ApplicationRef
from wallaroo.testing import simulate

pytestmark = pytest.mark.spark

KEYS = [f"key {number}" for number in range(30)]


def sent(event: int, *, sets: bool) -> list[tuple[str, bytes]]:
    readings = [timing.Reading(key, event + place, sets) for place, key in enumerate(KEYS)]
    return [(timing.SOURCE, json.dumps(reading).encode()) for reading in readings]


def by_key(outputs: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    found = defaultdict(list)
    for output in outputs:
        found[b" ".join(output.split()[:2])].append(output)
    return found


def test_timers_outlive_a_run_and_idle_entities_expire(on_spark: InProcess, tmp_path: Path) -> None:
    reference = ApplicationRef("tests.applications.timing", ())
    first, second = sent(10**18, sets=True), sent(10**18 + 2 * timing.TTL_NS, sets=False)
    due = simulate(reference.load(), [*first, *second])
    assert len(due.set_aside) == len(KEYS)
    ran = on_spark.run(
        reference,
        first,
        directory=tmp_path,
        until=lambda made: any(b"again" in one for one in made[timing.SOURCE]),
    )
    expected = by_key(due.outputs)
    complete = sum(len(one) - 1 for one in expected.values())
    assert len(ran.by_sink[timing.SOURCE]) < complete, "the run ends while timers are set"
    waits = on_spark.run(
        reference,
        [],
        directory=tmp_path,
        until=lambda made: len(made[timing.SOURCE]) >= complete,
    )
    ended = on_spark.run(reference, second, directory=tmp_path)
    assert by_key(ended.by_sink[timing.SOURCE]) == expected
    assert all(said[-1].endswith(b" 1") for said in expected.values()), "they have expired"
    runs = [run.tally for run in (ran, waits, ended)]
    assert sum(tally.set_aside for tally in runs) == len(KEYS)
    letters = {one.message for tally in runs for one in tally.examples}
    assert all(one.startswith("\"timer 'again' of key 'key ") for one in letters)
    assert sum(sum(tally.metrics.expired.values()) for tally in runs) == len(KEYS)
