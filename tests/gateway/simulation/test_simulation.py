"""Whatever fails: each message counts once, in order, and each output keeps its number.

More seeds: `python -m tests.chaos --seeds 1000000`.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.gateway.simulation.seeds import missing, simulate

_SEEDS = 4_000
_PARTS = 4


@pytest.mark.parametrize("part", range(_PARTS))
def test_each_message_counts_once_whatever_fails(part: int) -> None:
    windows: Counter[str] = Counter()
    simulate(range(part, _SEEDS, _PARTS), windows)
    assert missing(windows) == [], windows


def test_a_seed_is_always_the_same_run() -> None:
    first, second = Counter[str](), Counter[str]()
    simulate(range(20), first)
    simulate(range(20), second)
    assert first == second
