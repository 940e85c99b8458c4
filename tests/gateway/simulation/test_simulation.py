"""Whatever fails: each message counts once, in order, and each output keeps its number.

More seeds than usual: WALLAROO_WORLD_SEEDS=1000000. Other ones: WALLAROO_WORLD_FIRST=1000000.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.gateway.simulation.world import World

_SEEDS = int(os.environ.get("WALLAROO_WORLD_SEEDS", "2000"))
_FIRST = int(os.environ.get("WALLAROO_WORLD_FIRST", "0"))
_PARTS = 4
_WINDOWS = (
    "kill",
    "power failure",
    "query killed",
    "crash before a write",
    "crash before a sync",
    "crash during a sync",
    "crash during recovery",
    "crash in pwritev",
    "crash in fdatasync",
    "changes applied",
    "committed after its end",
    "output repeated",
    "segments let go",
)


@pytest.mark.timeout(0 if "WALLAROO_WORLD_SEEDS" in os.environ else 240)
@pytest.mark.parametrize("part", range(_PARTS))
def test_each_message_counts_once_whatever_fails(part: int, tmp_path: Path) -> None:
    windows: Counter[str] = Counter()
    for seed in range(_FIRST + part, _FIRST + _SEEDS, _PARTS):
        directory = tmp_path / str(seed)
        directory.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            try:
                World(directory, seed, patch, windows).run()
            except BaseException as error:
                error.add_note(f"seed {seed}")
                raise
        shutil.rmtree(directory)
    assert [name for name in _WINDOWS if not windows[name]] == [], windows
