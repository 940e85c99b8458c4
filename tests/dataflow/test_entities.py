"""Records have what entities are, and keep those that cannot be loaded until they can."""

from __future__ import annotations

from typing import Any

import pytest

from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.savable import Codec
from wallaroo.errors import DamagedFile, RuntimeFailure

PARTITIONS = ("words", "numbers")


def record(
    key: Any, entity: Any, partition: int = 0, serializer: EntitySerializer | None = None
) -> bytes:
    """A chunk that gives *key* the entity *entity*."""
    changes = Changes.none(len(PARTITIONS))
    changes.changed[partition][key] = entity
    return (serializer or EntitySerializer(PARTITIONS)).record(changes)


def entities(*records: bytes) -> list[dict[Any, Any]]:
    return EntitySerializer(PARTITIONS).read(records).entities


def test_a_new_bucket_has_no_entities() -> None:
    assert entities() == [{}, {}]


def test_entities_are_read_by_another_process() -> None:
    assert entities(record("a", [1]), record("b", [2], 1)) == [{"a": [1]}, {"b": [2]}]


def test_the_last_entity_of_a_key_counts() -> None:
    assert entities(record("a", [1]), record("a", [1, 2]))[0] == {"a": [1, 2]}


def test_a_record_that_cannot_be_read_changes_nothing() -> None:
    serializer = EntitySerializer(PARTITIONS)
    bucket = serializer.read([record("a", [1])])
    with pytest.raises(DamagedFile):
        serializer.apply(b"broken", bucket)
    assert bucket.entities == [{"a": [1]}, {}]


def test_entities_are_found_by_the_name_of_their_partition() -> None:
    other = EntitySerializer(("numbers", "more", "words"))
    assert other.read([record("a", [1], partition=1)]).entities == [{"a": [1]}, {}, {}]


def test_an_entity_that_is_made_again_has_the_key_that_it_was_made_of() -> None:
    """Keys may be equal and yet print differently: `1` and `True`."""
    again = EntitySerializer(PARTITIONS).record(Changes([{True: "entity"}, {}], [{1}, set()]))
    assert repr(entities(record(1, "entity"), again)[0]) == "{True: 'entity'}"


def test_an_entity_that_does_not_pickle_is_named_with_state_key_and_path() -> None:
    fine, spoilt = [1], {"made": [1, lambda: 0]}
    with pytest.raises(
        RuntimeFailure,
        match=r"state 'words', key 'b': state\['made'\]\[1\] cannot be saved: <lambda> is defined",
    ):
        EntitySerializer(PARTITIONS).record(Changes([{"a": fine, "b": spoilt}, {}], [set(), set()]))


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
    monkeypatch.setattr(Touchy, "refuses", 1)
    with pytest.raises(
        RuntimeFailure, match=r"key 'a': the entity, of class Touchy, can be saved but not lo"
    ):
        record("a", Touchy(1))


def _touchy(number: int) -> Touchy:
    made = Touchy.__new__(Touchy)
    made.__setstate__({"number": number})
    return made


@pytest.mark.parametrize("codec", [None, Codec(lambda e: e.number, _touchy)])
def test_an_entity_that_cannot_be_loaded_is_kept_until_it_can(
    codec: Codec | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    codecs = {} if codec is None else {0: codec}
    base = EntitySerializer(PARTITIONS, codecs).record(
        Changes([{f"key {number}": Touchy(number) for number in range(3)}, {}], [set(), set()])
    )
    monkeypatch.setattr(Touchy, "refuses", 1)
    for _ in range(3):  # the log is replaced more than once
        serializer = EntitySerializer(PARTITIONS, codecs)
        bucket = serializer.read([base])
        assert sorted(bucket.entities[0]) == ["key 0", "key 2"]
        ((where, unloaded),) = bucket.unloaded.items()
        assert where == (0, "key 1")
        assert "state 'words', key 'key 1': the entity, of class" in str(unloaded)
        assert "cannot be loaded: ValueError: not this one" in str(unloaded)
        base = serializer.record(Changes(bucket.entities, [set(), set()]), bucket.unloaded)
    monkeypatch.setattr(Touchy, "refuses", None)
    bucket = EntitySerializer(PARTITIONS, codecs).read([base])
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
    first = EntitySerializer(PARTITIONS).record(
        Changes([{key: Plain(key) for key in range(3)}, {"fine": [1]}], [set(), set()])
    )
    monkeypatch.delattr(f"{__name__}.Plain")
    bucket = EntitySerializer(PARTITIONS).read([first])
    assert bucket.entities == [{}, {"fine": [1]}]
    assert "of class tests.dataflow.test_entities.Plain, cannot be loaded: AttributeError" in str(
        bucket.unloaded[0, 2]
    )
    second = EntitySerializer(PARTITIONS).record(Changes([{2: [7]}, {}], [{1}, set()]))
    bucket = EntitySerializer(PARTITIONS).read([first, second])
    assert (bucket.entities[0], set(bucket.unloaded)) == ({2: [7]}, {(0, 0)})
    base = EntitySerializer(PARTITIONS).record(
        Changes(bucket.entities, [set(), set()]), bucket.unloaded
    )
    monkeypatch.undo()
    for records in ([first, second], [base]):
        found = entities(*records)[0]
        assert {key: getattr(one, "number", one) for key, one in found.items()} == {0: 0, 2: [7]}
