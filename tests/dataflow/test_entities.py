"""State entities survive what happens to the processes that hold them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dataflow.single_bucket import Log
from wallaroo.dataflow.bucket_logs import Head
from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.entities import EntityCache
from wallaroo.dataflow.savable import Codec
from wallaroo.errors import DamagedFile, RuntimeFailure

PARTITIONS = ("words", "numbers")


def put(cache: EntityCache, log: Log, key: str, entity: Any, partition: int = 0) -> None:
    """A batch that gives *key* the entity *entity*."""
    bucket = cache.open(0, log)
    bucket.entities[partition][key] = entity
    changes = Changes.none(len(PARTITIONS))
    changes.changed[partition][key] = entity
    cache.commit(0, log, changes)


def entities(log: Log, cache: EntityCache | None = None) -> list[dict[Any, Any]]:
    return (cache or EntityCache(PARTITIONS)).open(0, log).entities


def test_a_new_bucket_has_no_entities() -> None:
    assert entities(Log()) == [{}, {}]


def test_entities_survive_the_loss_of_the_process_that_held_them() -> None:
    log = Log()
    put(EntityCache(PARTITIONS), log, "a", [1])
    put(EntityCache(PARTITIONS), log, "b", [2], partition=1)
    assert entities(log) == [{"a": [1]}, {"b": [2]}]


def test_the_last_entity_of_a_key_counts() -> None:
    log, cache = Log(), EntityCache(PARTITIONS)
    put(cache, log, "a", [1])
    put(cache, log, "a", [1, 2])
    assert entities(log)[0] == {"a": [1, 2]}


def test_a_process_that_has_the_bucket_does_not_read_its_log() -> None:
    log, cache = Log(), EntityCache(PARTITIONS)
    put(cache, log, "a", [1])
    put(cache, log, "b", [2])
    assert entities(log, cache)[0] == {"a": [1], "b": [2]}
    assert log.reads == 0


def test_what_another_process_committed_in_between_is_taken_over_record_by_record() -> None:
    log, here, there = Log(), EntityCache(PARTITIONS), EntityCache(PARTITIONS)
    put(here, log, "a", [1])
    put(there, log, "a", [1, 2])
    put(there, log, "b", [3], partition=1)
    assert (log.reads, log.looks) == (1, 0)  # by the other one, which had nothing
    assert entities(log, here) == [{"a": [1, 2]}, {"b": [3]}]
    assert (log.reads, log.looks) == (1, 2)


def test_a_process_that_is_far_behind_reads_the_whole_log() -> None:
    log, here, there = Log(), EntityCache(PARTITIONS), EntityCache(PARTITIONS)
    put(here, log, "a", [0])
    for turn in range(Head.RECENT):
        put(there, log, "b", [turn])
    reads = log.reads
    assert entities(log, here)[0] == {"a": [0], "b": [Head.RECENT - 1]}
    assert (log.reads, log.looks) == (reads + 1, 0)


def test_a_process_that_is_one_commit_behind_takes_it_over_also_when_it_replaced_the_log() -> None:
    log, here, there = Log(), EntityCache(PARTITIONS), EntityCache(PARTITIONS)
    put(here, log, "a", [0])
    there.open(0, log)
    there.commit(0, log, Changes.none(2))
    put(here, log, "b", [1])
    put(there, log, "c", bytes(EntityCache.MIN_LOG_BYTES))
    head = log.head()
    assert head is not None
    assert head.base_bytes > EntityCache.MIN_LOG_BYTES
    assert entities(log, here)[0].keys() == {"a", "b", "c"}
    assert log.reads == 1


def test_a_log_that_was_read_is_not_replaced_before_it_has_grown() -> None:
    log = Log()
    put(EntityCache(PARTITIONS), log, "a", bytes(EntityCache.MIN_LOG_BYTES))
    head = log.head()
    assert head is not None
    put(EntityCache(PARTITIONS), log, "b", [1])
    after = log.head()
    assert after is not None
    assert after.base_bytes == head.base_bytes


def test_a_record_that_cannot_be_read_leaves_nothing_half_done_in_memory() -> None:
    log, here, there = Log(), EntityCache(PARTITIONS), EntityCache(PARTITIONS)
    put(here, log, "a", [1])
    put(there, log, "a", [2])
    put(there, log, "b", [3])
    broken = log.copy()
    broken.by_place[2] = b"broken"
    with pytest.raises(DamagedFile):
        here.open(0, broken)
    assert entities(log, here)[0] == {"a": [2], "b": [3]}


def test_a_batch_that_did_not_commit_is_not_seen() -> None:
    log, cache = Log(), EntityCache(PARTITIONS)
    put(cache, log, "a", [1])
    bucket = cache.open(0, log)
    bucket.entities[0]["a"].append("half a batch")
    bucket.entities[0]["b"] = []
    assert entities(log, cache)[0] == {"a": [1]}


def test_a_commit_that_the_store_undid_is_not_seen() -> None:
    log, cache = Log(), EntityCache(PARTITIONS)
    put(cache, log, "a", [1])
    before = log.copy()
    put(cache, log, "a", [1, 2])
    assert entities(before, cache)[0] == {"a": [1]}


def test_a_batch_that_changes_nothing_writes_nothing() -> None:
    log, cache = Log(), EntityCache(PARTITIONS)
    put(cache, log, "a", [1])
    head, size = log.head(), log.bytes
    cache.open(0, log)
    cache.commit(0, log, Changes.none(2))
    assert (log.head(), log.bytes) == (head, size)
    assert entities(log, cache)[0] == {"a": [1]}
    assert log.reads == 0


def test_a_log_is_bounded_by_what_its_entities_take() -> None:
    log, cache = Log(), EntityCache(PARTITIONS)
    entity = bytes(10_000)
    for turn in range(300):
        put(cache, log, f"key {turn % 10}", entity)
        assert log.bytes < 3 * (10 * 10_200) + EntityCache.MIN_LOG_BYTES
    assert len(entities(log)[0]) == 10


def test_a_compacted_log_still_has_every_entity() -> None:
    log, cache = Log(), EntityCache(PARTITIONS)
    for turn in range(40):
        put(cache, log, f"key {turn}", (turn, bytes(5_000)), partition=turn % 2)
    assert len(log.records()) < 40
    together = entities(log)
    assert {key: entity[0] for of in together for key, entity in of.items()} == {
        f"key {turn}": turn for turn in range(40)
    }


def test_a_log_stays_bounded_when_every_batch_meets_a_new_process() -> None:
    log = Log()
    for _ in range(50):
        put(EntityCache(PARTITIONS), log, "a", bytes(20_000))
    assert log.bytes < EntityCache.MIN_LOG_BYTES + 40_000


def test_entities_are_found_by_the_name_of_their_partition() -> None:
    log = Log()
    put(EntityCache(PARTITIONS), log, "a", [1], partition=1)
    other = EntityCache(("numbers", "more", "words"))
    assert other.open(0, log).entities == [{"a": [1]}, {}, {}]


def test_an_entity_that_is_made_again_has_the_key_that_it_was_made_of() -> None:
    """Keys may be equal and yet print differently: `1` and `True`."""
    cache, log = EntityCache(PARTITIONS), Log()
    for key in (1, True):
        bucket, changes = cache.open(0, log), Changes.none(len(PARTITIONS))
        changes.forgotten[0].update(bucket.entities[0])
        bucket.entities[0].clear()
        bucket.entities[0][key] = changes.changed[0][key] = "entity"
        cache.commit(0, log, changes)
    assert repr(entities(log, cache)[0]) == repr(entities(log)[0]) == "{True: 'entity'}"


def test_buckets_do_not_mix() -> None:
    one, other, cache = Log(), Log(), EntityCache(PARTITIONS)
    put(cache, one, "a", [1])
    assert cache.open(1, other).entities == [{}, {}]


def test_an_entity_that_does_not_pickle_is_named_with_state_key_and_path() -> None:
    log, cache = Log(), EntityCache(PARTITIONS)
    bucket = cache.open(0, log)
    fine, spoilt = [1], {"made": [1, lambda: 0]}
    bucket.entities[0].update(a=fine, b=spoilt)
    with pytest.raises(
        RuntimeFailure,
        match=r"state 'words', key 'b': state\['made'\]\[1\] cannot be saved: <lambda> is defined",
    ):
        cache.commit(0, log, Changes([{"a": fine, "b": spoilt}, {}], [set(), set()]))
    assert entities(log, cache) == [{}, {}]


class Touchy:
    """Cannot be loaded while `refuses`, if it has that number."""

    refuses: int | None = None

    def __init__(self, number: int) -> None:
        self.number = number

    def __setstate__(self, state: dict[str, int]) -> None:
        if state["number"] == Touchy.refuses:
            msg = "not this one"
            raise ValueError(msg)
        vars(self).update(state)


def test_an_entity_that_cannot_be_loaded_is_found_at_the_first_save_of_its_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, cache = Log(), EntityCache(PARTITIONS)
    monkeypatch.setattr(Touchy, "refuses", 1)
    with pytest.raises(
        RuntimeFailure, match=r"key 'a': the entity, of class Touchy, can be saved but not lo"
    ):
        put(cache, log, "a", Touchy(1))
    assert entities(log, cache) == [{}, {}]


def _touchy(number: int) -> Touchy:
    made = Touchy.__new__(Touchy)
    made.__setstate__({"number": number})
    return made


@pytest.mark.parametrize("codec", [None, Codec(lambda e: e.number, _touchy)])
def test_an_entity_that_cannot_be_loaded_is_kept_until_it_can(
    codec: Codec | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    codecs = {} if codec is None else {0: codec}
    log = Log()
    for number in range(3):
        put(EntityCache(PARTITIONS, codecs), log, f"key {number}", Touchy(number))
    monkeypatch.setattr(Touchy, "refuses", 1)
    for turn in range(3):  # the log is replaced more than once
        cache = EntityCache(PARTITIONS, codecs)
        bucket = cache.open(0, log)
        assert sorted(bucket.entities[0]) == ["key 0", "key 2"]
        ((where, unloaded),) = bucket.unloaded.items()
        assert where == (0, "key 1")
        assert "state 'words', key 'key 1': the entity, of class" in str(unloaded)
        assert "cannot be loaded: ValueError: not this one" in str(unloaded)
        change = Changes.none(2)
        bucket.entities[1]["large"] = change.changed[1]["large"] = bytes(100_000 * 4**turn)
        cache.commit(0, log, change)
        assert log.records()[0] is not None
        assert -1 in log.by_place
    monkeypatch.setattr(Touchy, "refuses", None)
    bucket = EntityCache(PARTITIONS, codecs).open(0, log)
    assert {key: one.number for key, one in bucket.entities[0].items()} == {
        f"key {number}": number for number in range(3)
    }
    assert not bucket.unloaded


class Plain:
    def __init__(self, number: int) -> None:
        self.number = number


def test_entities_whose_class_is_gone_are_kept_until_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log()
    cache = EntityCache(PARTITIONS)
    change = Changes([{key: Plain(key) for key in range(3)}, {"fine": [1]}], [set(), set()])
    for number in range(2):
        cache.open(0, log).entities[number].update(change.changed[number])
    cache.commit(0, log, change)
    monkeypatch.delattr(f"{__name__}.Plain")
    other = EntityCache(PARTITIONS)
    bucket = other.open(0, log)
    assert bucket.entities == [{}, {"fine": [1]}]
    assert "of class tests.dataflow.test_entities.Plain, cannot be loaded: AttributeError" in str(
        bucket.unloaded[0, 2]
    )
    replaced = Changes([{2: [7]}, {"fine": bytes(100_000)}], [{1}, set()])
    bucket.entities[0][2] = [7]
    bucket.entities[1]["fine"] = replaced.changed[1]["fine"]
    other.commit(0, log, replaced)
    found = EntityCache(PARTITIONS).open(0, log)
    assert (found.entities[0], set(found.unloaded)) == ({2: [7]}, {(0, 0)})
    monkeypatch.undo()
    found = EntityCache(PARTITIONS).open(0, log)
    assert {key: getattr(one, "number", one) for key, one in found.entities[0].items()} == {
        0: 0,
        2: [7],
    }


def test_an_entity_that_was_never_to_be_saved_does_not_stop_a_log_from_being_replaced() -> None:
    log, cache = Log(), EntityCache(PARTITIONS)
    put(cache, log, "a", [1])
    cache.open(0, log).entities[0]["unsaved"] = lambda: 0
    cache.commit(0, log, Changes.none(2))
    put(cache, log, "b", bytes(EntityCache.MIN_LOG_BYTES))
    head = log.head()
    assert head is not None
    assert head.base_bytes > EntityCache.MIN_LOG_BYTES
    assert sorted(entities(log)[0]) == ["a", "b"]


changes = st.lists(
    st.tuples(
        st.sampled_from(["commit", "lost", "undone", "elsewhere", "anew"]),
        st.sampled_from("abc"),
        st.integers(0, 1),
    ),
    max_size=30,
)


@settings(max_examples=100, deadline=None)
@given(changes)
def test_whatever_happens_to_batches_only_committed_ones_count(
    happenings: list[tuple[str, str, int]],
) -> None:
    log, cache, due = Log(), EntityCache(PARTITIONS), [dict[str, list[int]](), {}]
    another = EntityCache(PARTITIONS)
    for turn, (fate, key, partition) in enumerate(happenings):
        holder = {"elsewhere": another, "anew": EntityCache(PARTITIONS)}.get(fate, cache)
        used = log.copy() if fate == "undone" else log
        bucket = holder.open(0, used)
        assert bucket.entities == due
        entity = bucket.entities[partition].setdefault(key, [])
        entity.append(turn)
        if fate == "lost":
            continue
        changed: list[dict[str, Any]] = [{}, {}]
        changed[partition][key] = entity
        holder.commit(0, used, Changes(changed, [set(), set()]))
        if fate != "undone":
            due = pickle.loads(pickle.dumps(bucket.entities))
    assert entities(log, cache) == due
