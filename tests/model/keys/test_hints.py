"""What annotations of key functions say is found before the first message, and no more."""

from __future__ import annotations

import abc
import datetime
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NewType, Optional, TypeVar

import pytest

from tests import odd_keys
from wallaroo.model.keys.hints import problem_of_keys

if TYPE_CHECKING:
    from decimal import Decimal as Unknown


class Leaf:
    pass


class Base:
    pass


@dataclass(frozen=True)
class Under(Base):
    name: str


class Abstract(abc.ABC):
    @abc.abstractmethod
    def name(self) -> str: ...


class Named(NamedTuple):
    leaf: Leaf


@dataclass(frozen=True)
class Order:
    items: list[str]
    memo: list[str] = field(default_factory=list, compare=False)


@dataclass(frozen=True)
class Tree:
    name: str
    up: Tree | None
    memo: list[str] = field(default_factory=list, compare=False)


T = TypeVar("T")
LeafId = NewType("LeafId", Leaf)


def undefined(_message: Any) -> Unknown:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("hint", "named"),
    [
        (list, "list"),
        (list[str], "list"),
        (dict[str, int], "dict"),
        (memoryview, "memoryview"),
        (Leaf, "Leaf"),
        (Optional[Leaf], "Leaf"),  # noqa: UP045
        (str | Leaf, "Leaf"),
        (tuple[str, Leaf], "Leaf"),
        (frozenset[Leaf], "Leaf"),
        (Annotated[Leaf, 1], "Leaf"),
        (LeafId, "Leaf"),
        (Named, "Leaf"),
        (Order, "list"),
        (odd_keys.Unfrozen, "Unfrozen"),
        (odd_keys.Customer, "Customer"),
        (odd_keys.AnyCase, "AnyCase"),
    ],
    ids=repr,
)
def test_what_cannot_be_a_key_is_a_problem(hint: Any, named: str) -> None:
    problem = problem_of_keys(annotated(hint))
    assert problem is not None
    assert problem.startswith(f"{named} is not a valid key: ")


@pytest.mark.parametrize(
    "hint",
    [
        *(str, int, float, None, str | None, tuple[int, ...], datetime.datetime, Literal["a"]),
        *(odd_keys.Account, odd_keys.Pair, odd_keys.Side, odd_keys.Basket, Tree, Under),
        *(Any, object, Hashable, Iterable[str], T, type[int], Base, Abstract, Exception, "missing"),
    ],
    ids=repr,
)
def test_what_may_be_a_key_is_not(hint: Any) -> None:
    assert problem_of_keys(annotated(hint)) is None


def test_functions_whose_annotations_say_nothing_are_left_alone() -> None:
    for function in (undefined, len, lambda message: message):
        assert problem_of_keys(function) is None


def annotated(hint: Any) -> Any:
    def key(_message: Any) -> Any:
        raise NotImplementedError

    key.__annotations__["return"] = hint
    return key
