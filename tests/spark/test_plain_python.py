"""Odd but ordinary user code on one to three workers of real Spark, with restarts in between."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.spark.in_process import InProcess
from wallaroo.loading.loader import ApplicationRef
from wallaroo.testing import simulate

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::wallaroo.testing.HintWarning"),
]


@pytest.mark.parametrize("seed", range(16))
def test_spark_gives_what_the_simulation_gives(
    seed: int, on_spark: InProcess, tmp_path: Path
) -> None:
    choose = random.Random(seed)
    reference = ApplicationRef("tests.plain_python", (str(seed),))
    application = reference.load()
    names = [source.name for source in application.sources]
    parts = [
        [
            (choose.choice(names), f"{choose.choice('abc')}{choose.randint(0, 60)}".encode())
            for _ in range(choose.randint(20, 150))
        ]
        for _ in range(choose.randint(1, 2))
    ]
    sent: list[tuple[str, bytes]] = []
    dead_letters = 0
    for part in parts:  # each in a run of its own, which starts where the last one ended
        sent += part
        made = on_spark.run(
            reference,
            part,
            workers=1 + seed % 3,
            max_chunk_bytes=choose.choice([300, 1_500, 1 << 20]),
            choose=choose,
            directory=tmp_path,
        )
        dead_letters += made.tally.set_aside
    expected = simulate(application, sent)
    for sink, outputs in expected.by_sink.items():
        assert Counter(made.by_sink[sink]) == Counter(outputs)
    assert dead_letters == len(expected.set_aside)
