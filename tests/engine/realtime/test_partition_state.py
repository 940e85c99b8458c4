"""The entities of a partition: published, saved by bucket, and read again."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.engine.realtime import partition_state
from wallaroo.engine.realtime.frames import Appended
from wallaroo.engine.realtime.partition_state import MIN_LOG_BYTES, PartitionState
from wallaroo.engine.realtime.state_memory import StateMemory
from wallaroo.errors import RuntimeFailure
from wallaroo.model.timing import KeyTime

BUCKETS = 2
_limit_bytes: int | None = None


@pytest.fixture(autouse=True, scope="module", params=[None, 1], ids=["in memory", "spilled"])
def _memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """Entities stay in memory, or all of them leave it whenever they can."""
    global _limit_bytes  # noqa: PLW0603 - hypothesis refuses fixtures of functions
    _limit_bytes = request.param
    yield
    _limit_bytes = None


def log(appended: list[Appended]) -> list[bytes]:
    """The records of a bucket's log."""
    records: list[bytes] = []
    for _, record, base in appended:
        records = records if base is None else [base]
        records += [record] if record else []
    return records


def opened(saved: list[list[Appended]], states: list[str] | None = None) -> PartitionState:
    """A partition that reads what was *saved* of its buckets."""
    serializer, memory = EntitySerializer(states or ["counts"]), None
    if _limit_bytes is not None:
        directory = Path(tempfile.gettempdir())
        memory = StateMemory(_limit_bytes, directory, serializer, lambda _, key: key % BUCKETS)
    state = PartitionState(
        serializer, lambda _number, key: key % BUCKETS, lambda key: key % BUCKETS, memory
    )
    for bucket, appended in enumerate(saved):
        head = appended[-1].head if appended else None
        state.open(bucket, f"log-{bucket}", head, log(appended))
    return state


def run(state: PartitionState, changes: Changes) -> bytes:
    """Change the entities as a chunk does; its record."""
    state.bucket.entities[0].update(changes.changed[0])
    for (number, key), time in changes.times.items():
        if time is None:
            state.bucket.times.pop((number, key), None)
        else:
            state.bucket.times[number, key] = time
    for key in changes.forgotten[0]:
        state.bucket.entities[0].pop(key, None)
    record = state.record(changes)
    state.settle()
    return record


def save(state: PartitionState, saved: list[list[Appended]], chunk: int) -> None:
    assert state.end_epoch(chunk)
    assert not state.end_epoch(chunk)
    for bucket, appended in enumerate(saved):
        appended.append(state.save(bucket))


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


def put(state: PartitionState, key: int, entity: Any) -> bytes:
    return run(state, Changes([{key: entity}], [set()]))


def test_a_state_that_the_application_lacks_for_a_while_is_kept() -> None:
    saved: list[list[Appended]] = [[] for _ in range(BUCKETS)]
    both = opened(saved, ["counts", "other"])
    timed = KeyTime(0, 0, 0, {"timer": 9})
    kept = {key: f"kept {key}" for key in range(6)}
    both.bucket.entities[1].update(kept)
    both.bucket.times[1, 4] = timed
    both.record(Changes([{}, dict(kept)], [set(), set()], {(1, 4): timed}))
    save(both, saved, 1)
    published = [  # and not in the logs of buckets before the application is killed
        both.record(Changes([{}, {0: "changed", 7: "new"}], [set(), {2}], {(1, 7): timed})),
        both.record(Changes([{}, {}], [set(), {5}])),
    ]
    without = opened(saved, ["counts"])
    for record in published:
        without.apply(record)
    for chunk in range(2, 12):  # until the logs are replaced by records of all entities
        run(without, Changes([{key: str(chunk) * 40_000 for key in (0, 1)}], [set()]))
        save(without, saved, chunk)
        if chunk == 6:
            without = opened(saved, ["counts"])
    assert all(any(one.base for one in appended) for appended in saved)
    again = opened(saved, ["other", "counts"])
    assert again.bucket.entities[0] == {
        0: "changed",
        1: "kept 1",
        3: "kept 3",
        4: "kept 4",
        7: "new",
    }
    assert {where: at.timers for where, at in again.bucket.times.items()} == {
        (0, 4): {"timer": 9},
        (0, 7): {"timer": 9},
    }
    assert again.bucket.entities[1] == without.bucket.entities[0]


def test_a_log_is_bounded_by_what_its_entities_take() -> None:
    saved: list[list[Appended]] = [[] for _ in range(BUCKETS)]
    state = opened(saved)
    for turn in range(100):
        put(state, turn % 10, bytes(10_000) + bytes([turn]))
        save(state, saved, turn)
        size = sum(len(record) for appended in saved for record in log(appended))
        assert size < 4 * (10 * 10_200) + BUCKETS * MIN_LOG_BYTES
        if turn % 9 == 0:
            state = opened(saved)
    assert opened(saved).bucket.entities == state.bucket.entities
    assert opened(saved).size()[:2] == state.size()[:2] == [10, state.log_bytes]


def test_a_log_that_was_read_is_not_replaced_before_it_has_grown() -> None:
    saved: list[list[Appended]] = [[] for _ in range(BUCKETS)]
    state = opened(saved)
    put(state, 0, bytes(MIN_LOG_BYTES))
    save(state, saved, 1)
    assert saved[0][-1].base
    state = opened(saved)
    put(state, 2, [1])
    save(state, saved, 2)
    assert saved[0][-1].record
    assert saved[0][-1].base is None


def test_an_entity_that_was_saved_before_the_limit_may_be_saved_with_others() -> None:
    """All entities are written once more when a log is replaced: none of them has grown."""
    saved: list[list[Appended]] = [[] for _ in range(BUCKETS)]
    state = opened(saved)
    put(state, 0, bytes(2 * MIN_LOG_BYTES))
    save(state, saved, 1)
    state.serializer.limit_bytes = MIN_LOG_BYTES
    before = saved[0][-1].head.base_bytes
    for key in range(2, 24, 2):
        put(state, key, bytes(MIN_LOG_BYTES - 1000))
        save(state, saved, key)
    assert saved[0][-1].head.base_bytes > before
    assert opened(saved).bucket.entities == state.bucket.entities
    with pytest.raises(RuntimeFailure, match="the limit is"):
        put(state, 0, bytes(3 * MIN_LOG_BYTES))


def test_an_epoch_that_changes_nothing_only_says_that_the_logs_are_of_its_end() -> None:
    saved: list[list[Appended]] = [[] for _ in range(BUCKETS)]
    state = opened(saved)
    put(state, 0, [1])
    save(state, saved, 1)
    save(state, saved, 2)
    for appended in saved:
        assert appended[-1].record == b""
        assert appended[-1].head.at == 2
    opened(saved).check_age(2)


def test_an_entity_that_was_never_to_be_saved_does_not_stop_the_others() -> None:
    saved: list[list[Appended]] = [[] for _ in range(BUCKETS)]
    state = opened(saved)
    state.bucket.entities[0][4] = lambda: 0
    put(state, 0, bytes(MIN_LOG_BYTES))
    save(state, saved, 1)
    assert saved[0][-1].base is None
    assert opened(saved).bucket.entities == [{0: bytes(MIN_LOG_BYTES)}]
    with pytest.raises(RuntimeFailure, match="state 'counts', key 4"):
        put(state, 4, state.bucket.entities[0][4])


class Plain:
    """Is gone at times."""


def test_entities_that_cannot_be_loaded_are_logged_and_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saved: list[list[Appended]] = [[] for _ in range(BUCKETS)]
    state = opened(saved)
    run(state, Changes([{key: Plain() for key in range(12)}], [set()]))
    save(state, saved, 1)
    published = run(state, Changes([{12: Plain()}], [set()]))
    monkeypatch.delattr(f"{__name__}.Plain")
    state = opened(saved)
    state.apply(published)
    told: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(
        partition_state, "log_event", lambda _level, event, **more: told.append((event, more))
    )
    state.log_unloaded()
    assert len(told) == 11
    assert "state 'counts', key 0: the entity, of class" in told[0][0]
    assert told[10] == ("more entities cannot be loaded", {"more": 3})
    put(state, 14, bytes(4 * MIN_LOG_BYTES))
    save(state, saved, 2)
    assert saved[0][-1].base
    monkeypatch.undo()
    assert opened(saved).bucket.entities[0].keys() == {*range(13), 14}


happenings = st.lists(
    st.tuples(st.sampled_from(["chunk", "epoch", "restart"]), st.integers(0, 3), st.booleans()),
    max_size=30,
)


@settings(max_examples=100, deadline=None)
@given(happenings)
def test_whatever_happens_only_what_was_published_counts(
    happenings: list[tuple[str, int, bool]],
) -> None:
    saved: list[list[Appended]] = [[] for _ in range(BUCKETS)]
    state, published, due = opened(saved), list[bytes](), dict[int, list[int]]()
    for turn, (what, key, forgets) in enumerate(happenings):
        if what == "epoch":
            save(state, saved, turn)
            published.clear()
        elif what == "restart":
            state.bucket.entities[0].setdefault(key, []).append(turn)  # not published
            state = opened(saved)
            for record in published:
                state.apply(record)
        elif forgets:
            published.append(run(state, Changes([{}], [{key}])))
        else:
            entity = [*state.bucket.entities[0].get(key, []), turn]
            published.append(put(state, key, entity))
        if what == "chunk":
            due = pickle.loads(pickle.dumps(dict(state.bucket.entities[0].items())))
        assert state.bucket.entities[0] == due
