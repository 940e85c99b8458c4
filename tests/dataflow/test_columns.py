"""Columns give back what pickling would, and leave to pickling what they cannot hold."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.dataflow.columns import Columns


class Open:
    """Attributes in a dictionary."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return 0


class Slotted:
    __slots__ = ("one", "two")

    def __init__(self, one: Any, two: Any) -> None:
        self.one, self.two = one, two

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted) and (self.one, self.two) == (other.one, other.two)

    def __hash__(self) -> int:
        return 0


class Derived(Slotted):
    __slots__ = ("three",)


class OpenSlotted(Slotted):
    """Slots, and a dictionary beside them."""


class Private:
    __slots__ = ("__hidden",)


class OwnState(Open):
    def __getstate__(self) -> dict[str, Any]:
        return {"saved": True}


class Restored(Open):
    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, restored=True)


class Reduced(Open):
    def __reduce__(self) -> tuple[Any, ...]:
        return (Reduced, ())


class Watched(Slotted):
    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)


class Hidden(Slotted):
    """An attribute of the class hides a slot."""

    __slots__ = ()


Hidden.two = None  # type: ignore[misc]


class Listed(list[int]):
    pass


values = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
open_entities = st.builds(
    lambda attributes: Open(**attributes),
    st.dictionaries(st.sampled_from(["a", "b"]), values),
)


@given(st.lists(open_entities | st.builds(Slotted, values, values), min_size=1))
def test_what_comes_back_is_what_was_saved(entities: list[Any]) -> None:
    columns = Columns.of(entities)
    if columns is not None:
        assert restored(columns, len(entities)) == entities


def restored(columns: Columns, count: int) -> list[Any]:
    """What comes back."""
    loaded: Columns = pickle.loads(pickle.dumps(columns))
    return loaded.objects(count)


def test_entities_of_one_class_and_shape_are_held() -> None:
    for entities in (
        [Open(a=1, b=2), Open(a=3, b=4)],
        [Open(), Open()],
        [Slotted(1, 2), Slotted(3, [4])],
    ):
        columns = Columns.of(entities)
        assert columns is not None
        assert restored(columns, len(entities)) == entities


def test_what_entities_share_they_share_afterwards() -> None:
    shared: list[int] = []
    columns = Columns.of([Open(a=shared), Open(a=shared)])
    assert columns is not None
    made = restored(columns, 2)
    assert made[0].a is made[1].a


@pytest.mark.parametrize(
    "entities",
    [
        [],
        [Open(a=1), Open(b=1)],
        [Open(a=1, b=2), Open(b=3, a=4)],
        [Open(__reduce__=None)],
        [Watched(1, 2)],
        [Hidden.__new__(Hidden)],
        [Open(a=1), Open()],
        [Open(), Slotted(1, 2)],
        [Derived(1, 2)],
        [OpenSlotted(1, 2)],
        [Private()],
        [OwnState()],
        [Restored()],
        [Reduced()],
        [Listed()],
        [7],
        ["text"],
        [{}],
        [None],
        [ValueError()],
    ],
    ids=lambda entities: ",".join(type(entity).__name__ for entity in entities) or "none",
)
def test_the_rest_is_left_to_pickling(entities: list[Any]) -> None:
    assert Columns.of(entities) is None


class Finding:
    """Finds what it does not have, and so cannot be loaded: pickling looks for hooks on it."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}

    def __getattr__(self, name: str) -> int:
        found: dict[str, int] = vars(self)["found"]
        return found.setdefault(name, 0)


def test_objects_that_find_attributes_in_their_own_way_are_pickled() -> None:
    assert Columns.of([Finding()]) is None
