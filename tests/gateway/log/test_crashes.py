"""Power failures at any moment, on a disk that loses, tears and reorders what was not synced.

More seeds than usual: WALLAROO_LOG_SEEDS=1000000.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from tests.gateway.log.model import DIRECTORY, Model
from tests.gateway.log.simulated_disk import Crash, SimulatedDisk
from wallaroo.gateway.log import recovery, search
from wallaroo.gateway.log.records import SNAPSHOT, Extent
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


@pytest.mark.parametrize("part", range(_PARTS))
def test_each_segment_that_goes_is_archived_or_told_to_be_lost(part: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(part, _SEEDS // 10, _PARTS):
        try:
            _archive(seed, seen)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    assert seen["archived"] > 100
    assert seen["archived twice"] > 0
    assert seen["lost"] > 0


def _archive(seed: int, seen: Counter[str]) -> None:
    """Use a log with an archive, let the machine fail, and so on, some times."""
    rng = random.Random(seed)
    model = Model(SimulatedDisk(), 200, rng.choice((0, 1000)), rng.choice((0, 5)))
    model.archives, archived, lost = True, dict[str, bytes](), 0
    for _ in range(rng.randrange(2, 6)):
        model.disk.crash_in = rng.randrange(10, 200)
        try:
            model.recover()
            for _ in range(rng.randrange(200)):
                model.step(rng)
                waiting = sorted(one for one in model.disk.names_seen if one.startswith("leaving-"))
                if waiting and rng.random() < 0.05:  # the other process
                    file = model.disk.names_seen[waiting[0]]
                    number = waiting[0].removeprefix("leaving-")
                    seen["archived twice"] += number in archived
                    assert archived.get(number, file.seen) == file.seen
                    archived[number] = bytes(file.seen)
                    model.disk.unlink(DIRECTORY / waiting[0])
        except Crash:
            pass
        lost += model.log.kept.lost
        model.durable = max(model.durable, model.log.durable)
        model.crash(rng)
    model.disk.crash_in = None
    model.recover()
    lost += model.log.kept.lost
    there = {one.rpartition("-")[2] for one in model.disk.names_seen if not is_spare(one)}
    firsts = {number for number, one in model.appended.items() if one.kind == SNAPSHOT}
    missing = firsts - {int(one, 16) for one in there | archived.keys()}
    seen["archived"] += len(archived)
    seen["lost"] += lost
    assert len(missing) <= lost
