"""What comes back of an entity is what pickling it would give, whatever its parts refer to."""

from __future__ import annotations

import enum
import random
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dataflow.graphs import isomorphic, reloaded
from wallaroo.dataflow.buckets import Bucket, Changes
from wallaroo.dataflow.entities import EntitySerializer


class Open:
    """Attributes in a dictionary."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def bump(self) -> None:
        """Something to keep as a bound method."""


class Slotted:
    __slots__ = ("a", "b", "c")


class Derived(Open):
    """Also an `Open`, and no `Open` by its type."""


class Own(Open):
    def __getstate__(self) -> dict[str, Any]:
        return {"kept": vars(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state["kept"])


class Reduced(Open):
    def __reduce__(self) -> tuple[Any, ...]:
        return _reduced, (), vars(self)


def _reduced() -> Reduced:
    return Reduced()


class Checked:
    """A slot that is set through `__setattr__`, as pickling sets it."""

    __slots__ = ("a", "b", "c", "sets")

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, "sets", getattr(self, "sets", 0) + 1)
        object.__setattr__(self, name, value)


class Listed(list[Any]):
    """A list with attributes."""


class Color(enum.Enum):
    RED = 1


class Single:
    """One object in each process."""

    one: Any = None

    def __new__(cls) -> Single:
        if cls.one is None:
            cls.one = super().__new__(cls)
        made: Single = cls.one
        return made


@dataclass
class Data:
    a: Any = None
    b: Any = None
    c: Any = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Frozen:
    a: Any = None


_NAMES = ("a", "b", "c")
_MADE = (Open, Open, Open, Slotted, Slotted, Derived, Own, Reduced, Checked, Listed, Data, dict)
_LEAVES = (0, 1.5, "text", b"bytes", None, True, (1, "x"), Color.RED, Frozen(1), 2**80)


def a_graph(choose: random.Random, kind: Any) -> Any:
    """An entity of class *kind* with parts that refer to each other, and to it, at random."""
    made = [kind()] + [_part(choose) for _ in range(choose.randrange(5))]
    for each in made:
        _fill(each, made, choose)
    return made[0]


def _part(choose: random.Random) -> Any:
    return choose.choice([*_MADE, list, set, deque, OrderedDict, Single])()


def _fill(each: Any, made: list[Any], choose: random.Random) -> None:
    def value() -> Any:
        one = choose.choice(made) if choose.random() < 0.4 else choose.choice(_LEAVES)
        if isinstance(one, Open) and type(one) is Open and choose.random() < 0.2:
            return one.bump
        return (one, one) if choose.random() < 0.1 else one

    if isinstance(each, (list, deque)):
        each.extend(value() for _ in range(choose.randrange(3)))
    elif isinstance(each, set):
        each.update(choose.sample([0, "text", (1, 2), Color.RED], choose.randrange(3)))
    elif isinstance(each, dict):
        each.update({name: value() for name in choose.sample(_NAMES, choose.randrange(4))})
    elif not isinstance(each, Single):
        names = _NAMES if choose.random() < 0.7 else choose.sample(_NAMES, 2)
        for name in names:
            setattr(each, name, value())


batches = st.lists(
    st.dictionaries(
        st.integers(0, 4), st.tuples(st.integers(0), st.sampled_from(_MADE)), min_size=1
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=400, deadline=None)
@given(batches, st.integers(0, 11), st.booleans())
def test_each_entity_comes_back_as_pickling_it_gives(
    batches: list[dict[int, tuple[int, Any]]], common: int, alike: bool
) -> None:
    serializer, followed, records = EntitySerializer(["s"]), Bucket([{}]), list[bytes]()
    due: dict[int, Any] = {}
    for batch in batches:
        graphs = {
            key: a_graph(random.Random(seed), _MADE[common] if alike else kind)
            for key, (seed, kind) in batch.items()
        }
        records.append(serializer.record(Changes([graphs], [set()])))
        due |= {key: reloaded(graph) for key, graph in graphs.items()}
        serializer.apply(records[-1], followed)
        again = serializer.read(records).entities[0]
        assert followed.entities[0].keys() == again.keys() == due.keys()
        for key, one in due.items():
            assert isomorphic(one, followed.entities[0][key])
            assert isomorphic(one, again[key])


class Book:
    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def add(self) -> int:
        self.owner.count += 1
        count: int = self.owner.count
        return count


class Owner:
    def __init__(self) -> None:
        self.count = 0
        self.book = Book(self)


class Itself:
    def __init__(self) -> None:
        self.count = 0
        self.me = self


class Keeper:
    __slots__ = ("add", "count")

    def __init__(self) -> None:
        self.count = 0
        self.add = self.more

    def more(self) -> int:
        self.count += 1
        return self.count


@pytest.mark.parametrize(
    ("kind", "add"),
    [
        (Owner, lambda entity: entity.book.add()),
        (Itself, lambda entity: Book.add(Book(entity.me))),
        (Keeper, lambda entity: entity.add()),
    ],
)
def test_what_an_entity_holds_changes_it_also_after_a_reload(kind: Any, add: Any) -> None:
    serializer, records = EntitySerializer(["s"]), list[bytes]()
    for turn in range(1, 5):
        entities = serializer.read(records).entities[0]
        for key in range(3):
            entity = entities.setdefault(key, kind())
            assert add(entity) == 2 * turn - 1
            assert add(entity) == 2 * turn
            assert entity.count == 2 * turn
        records.append(serializer.record(Changes([entities], [set()])))


class Ordered:
    def __init__(self, *names: str) -> None:
        for name in names:
            setattr(self, name, name)


def test_attributes_come_back_in_their_order() -> None:
    serializer, bucket = EntitySerializer(["s"]), Bucket([{}])
    for batch in (
        {1: Ordered("a", "b"), 2: Ordered("b", "a")},
        {1: Ordered("b", "a"), 2: Ordered("b", "a")},
    ):
        serializer.apply(serializer.record(Changes([batch], [set()])), bucket)
        for key, entity in bucket.entities[0].items():
            assert list(vars(entity)) == list(vars(batch[key]))


def test_what_one_object_was_for_two_keys_is_an_entity_for_each_afterwards() -> None:
    serializer, bucket = EntitySerializer(["s"]), Bucket([{}])
    one = Open(a=1, b=Open())
    for batch in ({1: one, 2: one}, {1: Open(a=1, b=2), 2: Open(a=3, b=4)}):
        serializer.apply(serializer.record(Changes([batch], [set()])), bucket)
    found = bucket.entities[0]
    assert [found[1].a, found[2].a] == [1, 3]
