"""The clocks of states with event time stand still while the application does not run."""

from __future__ import annotations

import time
from pathlib import Path

from tests.gateway.harness import opened
from tests.helpers import PATIENCE_S
from wallaroo.dataflow.program import Program
from wallaroo.gateway.store import Store
from wallaroo.loading.loader import ApplicationRef
from wallaroo.run.state.clocks import begin_clocks, has_clocks, shown_clocks

HOUR_NS = 3600 * 10**9
PROGRAM = Program(ApplicationRef("tests.applications.timing", ()).load(), 8)
NAMES = [source.name for source in PROGRAM.application.sources]


def shown(directory: Path) -> int | None:
    return shown_clocks(directory, directory / "checkpoint", PROGRAM).get(0)


def held_ns(store: Store) -> int:
    journal = store.journal
    journal.silence.watch([0], [])
    now_ns = journal.clock.now()
    return now_ns - dict(journal.silence.held(0, now_ns)).get(0, 0)


def test_a_directory_without_a_log_has_no_clocks(tmp_path: Path) -> None:
    assert not has_clocks(tmp_path)
    assert shown(tmp_path) is None


def test_a_gateway_goes_on_from_where_clocks_were_to_begin(tmp_path: Path) -> None:
    begins_ns = time.time_ns() - HOUR_NS
    begin_clocks(tmp_path, PROGRAM.application, begins_ns)
    assert has_clocks(tmp_path)
    before_ns = shown(tmp_path)
    assert before_ns is not None
    assert begins_ns <= before_ns < begins_ns + HOUR_NS
    with opened(tmp_path, application=PROGRAM.application.name, sources=NAMES) as store:
        assert before_ns <= held_ns(store) < begins_ns + HOUR_NS


def test_clocks_show_what_they_did_when_the_gateway_stopped(tmp_path: Path) -> None:
    with opened(
        tmp_path, application=PROGRAM.application.name, sources=NAMES, clock=lambda: 10**18
    ) as store:
        store.journal.silence.watch([0], [])
        store.journal.submit(0, 1, b"m")
        assert store.journal.flush(PATIENCE_S)
    first = shown(tmp_path)
    assert first is not None
    assert abs(first - 10**18) < HOUR_NS
    assert shown(tmp_path) == first, "however much later"


def test_the_log_of_another_state_says_nothing_of_its_clocks(tmp_path: Path) -> None:
    begin_clocks(tmp_path, PROGRAM.application, time.time_ns())
    checkpoint = tmp_path / "checkpoint"
    place = '{"offset": 5, "chunk": 1, "opening": "another", "imported": null}'
    for name, text in {
        "metadata": '{"id":"bc1071e6-8860-4bda-83e0-d3a64ae5d2c1"}',
        "offsets/0": f'v1\n{{"conf": {{"spark.sql.shuffle.partitions": "1"}}}}\n{place}',
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
    }.items():
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(text)
    assert shown(tmp_path) is None
