"""The times of keys in a partition: published, saved by bucket, and read again."""

from __future__ import annotations

from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.entities import EntityCache
from wallaroo.engine.realtime.frames import Appended
from wallaroo.engine.realtime.partition_state import PartitionState
from wallaroo.model.timing import KeyTime

BUCKETS = 2


def opened(saved: list[list[Appended]]) -> PartitionState:
    """A partition that reads what was *saved* of its buckets."""
    state = PartitionState(EntityCache(["counts"]), lambda _number, key: key % BUCKETS)
    for bucket, appended in enumerate(saved):
        records: list[bytes] = []
        for _, record, base in appended:
            records = records if base is None else [base]
            records += [record] if record else []
        head = appended[-1].head if appended else None
        state.open(bucket, f"log-{bucket}", head, records)
    return state


def run(state: PartitionState, changes: Changes) -> bytes:
    """Change the entities as a chunk does; its record."""
    state.bucket.entities[0] |= changes.changed[0]
    for (number, key), time in changes.times.items():
        if time is None:
            state.bucket.times.pop((number, key), None)
        else:
            state.bucket.times[number, key] = time
    for key in changes.forgotten[0]:
        state.bucket.entities[0].pop(key, None)
    return state.record(changes)


def save(state: PartitionState, saved: list[list[Appended]], chunk: int) -> None:
    for bucket, appended in enumerate(saved):
        appended.append(state.save(bucket, chunk))
    state.begin_epoch()


def times(state: PartitionState) -> dict[int, dict[str, int]]:
    return {key: time.timers for (_, key), time in state.bucket.times.items()}


def test_timers_come_back_from_published_changes_and_from_the_logs_of_buckets() -> None:
    saved: list[list[Appended]] = [[] for _ in range(BUCKETS)]
    state, follower = opened(saved), opened(saved)

    def at(due: int) -> KeyTime:
        return KeyTime(0, 0, 0, {"timer": due})

    big = dict.fromkeys(range(4), "x" * 40000)
    steps = [
        Changes([dict(big)], [set()], {(0, key): at(key) for key in big}),
        Changes([{}], [set()], {(0, 1): at(9)}),  # moved by a call that changed no entity
        Changes([{}], [{2}], {(0, 2): None}),
        Changes([{3: "y" * 90_000}], [set()], {(0, 3): None}),
    ]
    expected = {0: {"timer": 0}, 1: {"timer": 9}}
    for number, changes in enumerate(steps):
        follower.apply(run(state, changes))
        if number % 2:
            save(state, saved, number)
    assert times(state) == times(follower) == expected
    assert times(opened(saved)) == expected
    assert opened(saved).bucket.entities == state.bucket.entities
    for chunk in range(4, 12):  # until the logs are replaced by records of all entities
        run(state, Changes([{key: str(chunk) * 40_000 for key in (0, 1)}], [set()], {}))
        run(state, Changes([{}], [set()], {(0, 1): at(chunk), (0, 0): at(chunk)}))
        save(state, saved, chunk)
    assert any(one.base for appended in saved for one in appended)
    assert times(opened(saved)) == times(state) == {key: {"timer": 11} for key in (0, 1)}
