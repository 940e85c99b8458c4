"""Equal keys meet in one entity on Spark; what is not a key is set aside, others are processed."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests import odd_keys
from tests.spark.in_process import InProcess
from wallaroo.api.places import place_of
from wallaroo.loading.loader import ApplicationRef
from wallaroo.testing import simulate

pytestmark = pytest.mark.spark

NAMES = [f"{name} {number}" for name, keys in odd_keys.EQUAL.items() for number in range(len(keys))]


def test_odd_keys_count_on_spark_as_in_the_simulation(on_spark: InProcess, tmp_path: Path) -> None:
    reference = ApplicationRef("tests.odd_keys", ())
    application = reference.load()
    names = [*NAMES, *NAMES, *odd_keys.INVALID]
    choose = random.Random(16)
    choose.shuffle(names)
    sent = [(source.name, name.encode()) for name in names for source in application.sources]
    due = simulate(application, sent)
    first = len(sent) // 2
    # small batches, so that a key is met by several processes, and again after a start
    runs = [
        on_spark.run(
            reference, part, max_chunk_bytes=2500, choose=choose, directory=tmp_path, workers=2
        )
        for part in (sent[:first], sent[first:])
    ]
    assert all(run.chunks > 2 for run in runs)
    made = runs[-1].by_sink
    for sink, outputs in due.by_sink.items():
        assert Counter(made[sink]) == Counter(outputs)
    times = [output for output in made["Direct"] if output.startswith(b"datetime ")]
    assert [int(output.partition(b": ")[2]) for output in times] == list(range(1, 21))

    assert sum(run.tally.set_aside for run in runs) == len(due.set_aside)
    assert sum(sum(run.tally.unknown_keys.values()) for run in runs) == len(due.unknown_keys) > 0
    examples = [example for run in runs for example in run.tally.examples]
    assert {(one.pipeline, one.step, one.error, one.message) for one in examples} <= {
        (pipeline, step, f"{type(error).__name__}: {error}"[:500], repr(message))
        for pipeline, step, message, error in due.set_aside
    }
    places = {one.place for one in examples if one.step == "key of count"}
    assert places == {str(place_of(odd_keys.key.function))}
