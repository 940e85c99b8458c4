"""Entities of which some are in a local store: like a dictionary, whatever leaves memory when."""

from __future__ import annotations

import functools
import pickle
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from wallaroo.dataflow import spilled_entities
from wallaroo.dataflow.spilled_entities import Saving, SpilledEntities
from wallaroo.engine.realtime import local_store
from wallaroo.engine.realtime.local_store import LocalStore


@functools.total_ordering
class Colliding:
    """A key with the hash of all others of its class."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return -2

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Colliding) and other.name == self.name

    def __lt__(self, other: Colliding) -> bool:
        return self.name < other.name


KEYS: list[Any] = [
    *(0, 1, -1, -2, 1.0, True, Decimal(1), Fraction(1), 2**61 - 1, 2**70),  # some are equal
    *("a", "b", b"a", ("a", 1), ("a", 1.0), None),
    *map(Colliding, "abc"),
]
BUCKETS = 3


def entities_in(directory: Path, **saving: Callable[..., Any]) -> SpilledEntities:
    how: dict[str, Any] = {
        "dump": pickle.dumps,
        "load": pickle.loads,
        "bucket": lambda key: hash(key) % BUCKETS,
    }
    return SpilledEntities(LocalStore(directory), Saving(**how | saving))


@pytest.fixture
def entities(tmp_path: Path) -> SpilledEntities:
    return entities_in(tmp_path)


keys = st.sampled_from(KEYS)


class LikeADictionary(RuleBasedStateMachine):
    """The entities, and a dictionary with what they are to have."""

    def __init__(self) -> None:
        super().__init__()
        self.entities = entities_in(Path(tempfile.gettempdir()))
        self.expected: dict[Any, Any] = {}

    @rule(most=st.integers(0, 8))
    def end_chunk(self, most: int) -> None:
        self.entities.settle()
        for _ in range(2):  # the first time, what was used stays
            self.entities.evict(most)

    @rule(key=keys, value=st.integers())
    def put(self, key: Any, value: int) -> None:
        self.entities[key] = [value]
        self.expected[key] = [value]

    @rule(key=keys, value=st.integers())
    def mutate(self, key: Any, value: int) -> None:
        entity = self.entities.get(key)
        assert entity == self.expected.get(key)
        if entity is not None:
            assert self.entities[key] is entity
            entity.append(value)
            self.expected[key].append(value)

    @rule(key=keys)
    def delete(self, key: Any) -> None:
        if key in self.expected:
            del self.entities[key], self.expected[key]
        else:
            with pytest.raises(KeyError):
                del self.entities[key]

    @rule(key=keys)
    def pop(self, key: Any) -> None:
        assert self.entities.pop(key, "none") == self.expected.pop(key, "none")

    @rule(key=keys)
    def set_default(self, key: Any) -> None:
        assert self.entities.setdefault(key, [0]) == self.expected.setdefault(key, [0])

    @rule(some=st.dictionaries(keys, st.lists(st.integers(), max_size=2)))
    def update(self, some: dict[Any, Any]) -> None:
        self.entities.update({key: list(value) for key, value in some.items()})
        self.expected.update({key: list(value) for key, value in some.items()})

    @rule(some=st.lists(keys))
    def get_all(self, some: list[Any]) -> None:
        expected = [self.expected.get(key, "none") for key in some]
        assert self.entities.get_all(some, "none") == expected

    @rule(some=st.lists(keys, unique=True))
    def read(self, some: list[Any]) -> None:
        before = self.entities.in_memory
        found = self.entities.read(some)
        assert found == {key: self.expected[key] for key in some if key in self.expected}
        assert self.entities.in_memory == before

    @rule(some=st.sets(st.integers(0, BUCKETS - 1)))
    def read_buckets(self, some: set[int]) -> None:
        found = dict(self.entities.of_buckets(list(some)))
        assert found.keys() == some
        for bucket, of in found.items():
            assert of == {k: v for k, v in self.expected.items() if hash(k) % BUCKETS == bucket}

    @rule()
    def iterate(self) -> None:
        assert dict(self.entities.items()) == self.expected
        assert sorted(self.entities.values()) == sorted(self.expected.values())
        assert set(self.entities.keys()) == set(self.expected)
        assert len(list(self.entities)) == len(list(reversed(self.entities))) == len(self.expected)
        assert self.entities == self.expected
        assert {**self.entities} == self.expected

    @rule()
    def bring_all_while_iterating(self) -> None:
        seen = []
        for key in self.entities:
            for other in self.expected:
                assert self.entities[other] == self.expected[other]
            seen.append(key)
        assert len(seen) == len(self.expected)
        assert set(seen) == set(self.expected)

    @rule(key=keys)
    def contains(self, key: Any) -> None:
        assert (key in self.entities) == (key in self.expected)

    @rule()
    def clear(self) -> None:
        self.entities.clear()
        self.expected.clear()

    @invariant()
    def has_as_many(self) -> None:
        assert len(self.entities) == len(self.expected)
        assert bool(self.entities) == bool(self.expected)


@pytest.fixture(autouse=True, scope="module")
def _small_segments() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_store, "_SEGMENT_BYTES", 300)
        patch.setattr(local_store, "_BLOCK_BYTES", 120)
        yield


TestLikeADictionary = LikeADictionary.TestCase
TestLikeADictionary.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def evicted(entities: SpilledEntities) -> None:
    """Let all leave memory that can."""
    entities.settle()
    while entities.evict(1000):
        pass


def test_what_was_used_recently_stays(entities: SpilledEntities) -> None:
    entities.update({number: [number] for number in range(100)})
    evicted(entities)
    entities.get_all(list(range(50)), None)
    entities.settle()
    assert entities.evict(1) == 1  # all had been used: now each has had its second chance
    even = list(range(0, 50, 2))
    used = entities.get_all(even, None)
    entities.settle()
    assert entities.evict(25) == 25
    assert entities.in_memory == 25
    assert all(entities[number] is entity for number, entity in zip(even, used, strict=True))
    assert entities.in_memory == 25


def test_the_first_of_equal_keys_stays_the_key(entities: SpilledEntities) -> None:
    entities[1] = "one"
    evicted(entities)
    entities[1.0] = "another"
    assert [(type(key), entity) for key, entity in entities.items()] == [(int, "another")]


def test_what_cannot_be_saved_stays_in_memory(tmp_path: Path) -> None:
    entities = entities_in(tmp_path)
    entities["function"], entities["list"] = [lambda: 7], [1]
    evicted(entities)
    assert entities.in_memory == 1
    assert entities["function"][0]() == 7


def test_a_key_that_comes_and_goes_is_queued_once(entities: SpilledEntities) -> None:
    entities.update(dict.fromkeys(range(10), "x"))
    for _ in range(10_000):
        entities.pop(1)
        entities[1] = "x"
        entities.settle()
    assert len(entities._queue) < 3_000
    evicted(entities)
    assert entities.in_memory == 0
    assert dict(entities.items()) == dict.fromkeys(range(10), "x")


def test_a_search_over_pieces_sees_what_moves_meanwhile(entities: SpilledEntities) -> None:
    entities.update({number: [number] for number in range(200)})
    evicted(entities)
    seen: set[int] = set()
    for number, keys in enumerate(entities.key_pieces()):
        seen.update(keys)
        entities.get_all(list(range(number % 40, 200, 40)), None)  # a chunk runs
        if number % 3 == 0:
            evicted(entities)
        else:
            entities.settle()
    assert seen == set(range(200))


def test_large_entities_leave_a_few_at_a_time(
    entities: SpilledEntities, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spilled_entities, "_BATCH_BYTES", 5_000)
    monkeypatch.setattr(spilled_entities, "_MOST_BYTES", 100_000)
    entities.update(dict.fromkeys(range(20), "x" * 1000))
    entities["large"] = "x" * 200_000
    evicted(entities)
    assert entities.in_memory == 1
    assert dict(entities.items()) == dict.fromkeys(range(20), "x" * 1000) | {"large": "x" * 200_000}


def test_many_entities_that_cannot_be_saved_do_not_hold_up_each_chunk(tmp_path: Path) -> None:
    tried: list[Any] = []

    def dump(entity: Any) -> bytes:
        tried.append(entity)
        raise ValueError

    entities = entities_in(tmp_path, dump=dump)
    entities.update(dict.fromkeys(range(1_000), "x"))
    entities.settle()
    assert entities.evict(1_000) == 0
    assert len(tried) < 200
    assert len(entities) == entities.in_memory == 1_000
