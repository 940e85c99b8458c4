"""Timers and expiry on Spark: as in the simulation, also where a run ends between two calls."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

import wallaroo
from tests.applications import timing
from tests.spark.harness import called
from tests.spark.in_process import InProcess
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.reading import Reading
from wallaroo.loading.loader import ApplicationRef
from wallaroo.metrics.catalogue import STATE_EXPIRED
from wallaroo.model.timing import KeyTime
from wallaroo.run.state.transfer import written_entity
from wallaroo.testing import simulate

pytestmark = pytest.mark.spark

SOON = [f"soon {number}" for number in range(15)]
LATE = [f"late {number}" for number in range(15)]
START = 10**18


def sent(keys: Sequence[str], event: int, step_ns: int) -> list[tuple[str, bytes]]:
    readings = [timing.Reading(key, event + place, step_ns) for place, key in enumerate(keys)]
    return [(timing.SOURCE, json.dumps(reading).encode()) for reading in readings]


def by_key(outputs: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = defaultdict(list)
    for output in outputs:
        found[b" ".join(output.split()[:2])].append(output)
    return found


def test_timers_outlive_a_run_and_idle_entities_expire(on_spark: InProcess, tmp_path: Path) -> None:
    reference = ApplicationRef("tests.applications.timing", ())
    first = [
        *sent(SOON, START, wallaroo.milliseconds(40)),
        *sent(LATE, START, wallaroo.hours(1)),
    ]
    second = sent([*SOON, *LATE], START + wallaroo.hours(100), 0)
    due = simulate(reference.load(), [*first, *second])
    expected = by_key(due.outputs)
    # timers of some keys are called as the clock goes on, those of the others stay set
    complete = sum(len(said) - 1 for key, said in expected.items() if key.startswith(b"soon"))
    ran = on_spark.run(
        reference,
        first,
        directory=tmp_path,
        until=lambda made: len(made[timing.SOURCE]) >= complete + len(LATE),
    )
    assert len(ran.by_sink[timing.SOURCE]) == complete + len(LATE)
    ended = on_spark.run(reference, second, directory=tmp_path)
    assert by_key(ended.by_sink[timing.SOURCE]) == expected
    assert all(said[-1].endswith(b" 1") for said in expected.values()), "they have expired"
    runs = [ran.tally, ended.tally]
    assert sum(tally.set_aside for tally in runs) == len(due.set_aside) == len(expected)
    letters = {one.message for tally in runs for one in tally.examples}
    assert all(one.startswith("\"timer 'again' of key '") for one in letters)
    figures = [
        (sample.labels, sample.value)
        for sample in Reading(tmp_path / LOG).outbox.samples([])
        if sample.metric is STATE_EXPIRED
    ]
    assert figures == [(("call",), len(expected))]


def test_the_time_between_an_export_and_an_import_is_no_silence(
    on_spark: InProcess, tmp_path: Path
) -> None:
    app, directory, file = "tests.applications.timing", tmp_path / "state", tmp_path / "export"
    entity, exported_ns = timing.Calls(), 10**18  # years ago
    entity.messages = 1
    key_time = KeyTime(START, START, exported_ns - wallaroo.seconds(1))
    file.write_bytes(written_entity("call", "a", entity, "json", key_time, clock=exported_ns))
    at = ("--state-dir", str(directory))
    assert (done := called("state", "import", app, str(file), *at)).returncode == 0, done.stderr
    exported = json.loads(called("state", "export", app, *at).stdout)
    passed_ns = exported["clock"] - exported["time"]["seen_ns"]
    assert wallaroo.seconds(1) <= passed_ns < timing.TTL_NS
    second_at = START + timing.TTL_NS // 2
    ran = on_spark.run(
        ApplicationRef(app, ()), sent(["a"], second_at, 0), workers=1, directory=directory
    )
    assert ran.by_sink[timing.SOURCE] == [f"a {second_at} 2".encode()], "it has not expired"
