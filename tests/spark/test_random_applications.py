"""Random applications on random input, on one to three workers of real Spark."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.spark.in_process import InProcess
from wallaroo.loading.loader import ApplicationRef
from wallaroo.testing import simulate

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::wallaroo.testing.HintWarning"),
]


@pytest.mark.parametrize("seed", range(12))
def test_spark_gives_what_the_simulation_gives(seed: int, on_spark: InProcess) -> None:
    choose = random.Random(seed)
    reference = ApplicationRef("tests.random_applications", (str(seed),))
    application = reference.load()
    names = [source.name for source in application.sources]
    sent = [
        (choose.choice(names), f"{choose.choice('abcd')}{choose.randint(0, 60)}".encode())
        for _ in range(300)
    ]
    made = on_spark.run(
        reference,
        sent,
        workers=1 + seed % 3,
        max_chunk_bytes=choose.choice([300, 1_500, 1 << 20]),
        choose=choose,
    )
    due = simulate(application, sent)
    for sink, outputs in due.by_sink.items():
        assert Counter(made.by_sink[sink]) == Counter(outputs)
    assert made.tally.set_aside == len(due.set_aside)
    assert sum(made.tally.late.values()) == len(due.late)
