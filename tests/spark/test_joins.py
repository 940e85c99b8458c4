"""Joins on Spark: as in the simulation, also where a run ends while messages are kept."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import wallaroo
from tests.applications.joining import LEFT, RIGHT, SOON, Item
from tests.spark.in_process import InProcess
from wallaroo.loading.loader import ApplicationRef
from wallaroo.testing import simulate

pytestmark = pytest.mark.spark

KEYS = [f"key {number}" for number in range(12)]
SOON_KEYS = [f"{SOON} {number}" for number in range(12)]
START = 10**18
MINUTE = int(wallaroo.minutes(1))
AT_ONCE = "Lefts 4"
"""The sink of the join by time of arrival."""


def sent(source: str, item: Item) -> tuple[str, bytes]:
    return source, json.dumps(item).encode()


def messages(first: int, minute: int) -> list[tuple[str, bytes]]:
    """Forty messages of each key with ids from *first*, over two hours from *minute* on."""
    choose, made = random.Random(first), list[tuple[str, bytes]]()
    for id_ in range(first, first + 40):
        for key in KEYS:
            minute_of = minute + 3 * (id_ - first) + choose.randint(-3, 3)
            number = choose.choice([id_, id_, id_, 7])  # a left and a right message of one id fail
            item = Item(key, number, START + minute_of * MINUTE)
            made.append(sent(choose.choice([LEFT, RIGHT]), item))
    return made


def by_key(by_sink: Mapping[str, Sequence[bytes]]) -> dict[tuple[str, bytes], list[bytes]]:
    found: dict[tuple[str, bytes], list[bytes]] = defaultdict(list)
    for sink, outputs in by_sink.items():
        for output in outputs:
            found[sink, b" ".join(output.split()[:2])].append(output)
    return found


def test_joins_go_on_where_a_run_ended(on_spark: InProcess, tmp_path: Path) -> None:
    reference = ApplicationRef("tests.applications.joining", ())
    soon = [sent(LEFT, Item(key, 0, START)) for key in SOON_KEYS]
    first = [*messages(100, 0), *soon]
    late = [sent(RIGHT, Item(key, 1, START)) for key in KEYS]
    # both sides jump ahead, which completes all that was kept
    jump = [
        sent(source, Item(key, 2 + (source == LEFT), START + minute * MINUTE))
        for key in KEYS
        for minute in (6_000, 12_000)
        for source in (LEFT, RIGHT)
    ]
    second = [*messages(200, 60), *jump, *late]
    due = simulate(reference.load(), [*first, *second], until_ns=int(wallaroo.seconds(1)))
    expected = by_key(due.by_sink)
    assert {sink for sink, _ in expected} == {"Lefts", *(f"Lefts {n}" for n in range(2, 6))}
    assert due.late
    assert any(
        isinstance(message, tuple) and len(message) == 2 for _, _, message, _ in due.set_aside
    )
    ran = on_spark.run(
        reference,
        first,
        directory=tmp_path,
        until=lambda made: len(made[AT_ONCE]) >= len(SOON_KEYS),
    )
    assert len(ran.by_sink[AT_ONCE]) == len(SOON_KEYS)
    ended = on_spark.run(reference, second, directory=tmp_path)
    assert by_key(ended.by_sink) == expected
    tallies = [ran.tally, ended.tally]
    assert sum(tally.set_aside for tally in tallies) == len(due.set_aside)
    assert sum(sum(tally.late.values()) for tally in tallies) == len(due.late)
    letters = [one for tally in tallies for one in tally.examples]
    assert {one.step for one in letters} == {"last", "as of", "near"}
    assert all(one.place.endswith("joining.py:52") for one in letters)
