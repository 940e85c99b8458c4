"""Power failures at any moment, on a disk that loses, tears and reorders what was not synced.

More seeds than usual: WALLAROO_LOG_SEEDS=1000000.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from tests.gateway.log.model import Model
from tests.gateway.log.simulated_disk import Crash, SimulatedDisk
from wallaroo.gateway.log import recovery, search
from wallaroo.gateway.log.records import Extent
from wallaroo.gateway.log.segments import HEAD_BYTES, is_spare

_SEEDS = int(os.environ.get("WALLAROO_LOG_SEEDS", "4000"))
_PARTS = 4


def _run(seed: int, seen: Counter[str]) -> None:
    """Use a log, let the machine fail, and so on, some times."""
    rng = random.Random(seed)
    segment_bytes, keep_bytes = rng.choice((200, 500, 500, 2000)), rng.choice((0, 1000, 4000))
    model = Model(SimulatedDisk(), segment_bytes, keep_bytes, rng.choice((0, 0, 5)))
    model.seen = seen
    for _ in range(rng.randrange(1, 5)):
        model.disk.crash_in = rng.randrange(rng.choice((3, 10, 50)))
        try:
            model.recover()
            for _ in range(rng.randrange(60)):
                model.step(rng)
        except Crash:
            seen[f"crash in {model.disk.crashed_at}"] += 1
        model.durable = max(model.durable, model.log.durable)
        seen["crash while a segment begins"] += any(map(is_spare, model.disk.names_seen))
        model.crash(rng)
    model.disk.crash_in = None
    model.recover()
    model.scan()
    model.append(7, b"further")
    model.write()
    model.sync()
    model.recover()


@pytest.mark.timeout(0 if "WALLAROO_LOG_SEEDS" in os.environ else 240)
@pytest.mark.parametrize("part", range(_PARTS))
def test_what_was_synced_is_there_and_nothing_else_is(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Counter[str] = Counter()

    def proves(extent: Extent, at: int, number: int) -> bool:
        behind = extent.data[at:].strip(b"\0")
        seen["torn record"] += bool(behind)
        seen["valid records behind a torn one"] += (
            search.next_record(extent, at, number) is not None
        )
        seen["empty segment"] += at == HEAD_BYTES
        proved = real(extent, at, number)
        assert not proved
        return proved

    real = search.proves_durable
    monkeypatch.setattr(recovery, "proves_durable", proves)
    for seed in range(part, _SEEDS, _PARTS):
        try:
            _run(seed, seen)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    calls = "create", "pwritev", "fdatasync", "rename", "sync_directory", "truncate", "unlink"
    for window in (
        "torn record",
        "valid records behind a torn one",
        "empty segment",
        "lost records",
        "released",
        "crash while a segment begins",
        "scanned what is kept",
        *(f"crash in {call}" for call in calls),
    ):
        assert seen[window] > 0, (window, seen)
