"""A key has its bucket in every process, and equal keys have the same."""

from __future__ import annotations

import enum
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wallaroo.dataflow.rows import buckets_of
from wallaroo.model.keys.buckets import bucket_of, stable_hash

atoms = st.none() | st.booleans() | st.integers() | st.text() | st.binary()
keys = st.recursive(atoms, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=12)


class Side(enum.Enum):
    BUY = 1
    SELL = 2


class Level(enum.IntEnum):
    LOW = 1


class Code(enum.StrEnum):
    OK = "ok"


class LoudText(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "LOUD"


class Pair(NamedTuple):
    left: str
    right: int


@dataclass(frozen=True)
class Account:
    bank: str
    number: int


@pytest.mark.parametrize(
    "equal",
    [
        (1, 1.0, True, 1 + 0j, Decimal(1), Fraction(1), Level.LOW),
        (0, 0.0, -0.0, False, Decimal("0.00")),
        (2**70, float(2**70), Decimal(2**70)),
        (0.5, Fraction(1, 2), Decimal("0.5")),
        ("ok", Code.OK, LoudText("ok")),
        (("a", 1), Pair("a", 1), ("a", 1.0)),
        (frozenset({1, "a"}), frozenset({"a", 1.0})),
        (Account("x", 1), Account("x", 1.0)),  # type: ignore[arg-type]
    ],
    ids=lambda equal: repr(equal[0]) if not isinstance(equal[0], frozenset) else "frozenset",
)
def test_equal_keys_of_different_types_share_their_hash(equal: tuple[Hashable, ...]) -> None:
    assert len(set(equal)) == 1
    assert len({stable_hash(key) for key in equal}) == 1


@settings(max_examples=200, deadline=None)
@given(keys)
def test_every_key_has_a_bucket_and_its_copy_the_same(key: Hashable) -> None:
    copy = eval(repr(key))
    assert 0 <= bucket_of(key, 7) < 7
    assert bucket_of(copy, 7) == bucket_of(key, 7)


@settings(max_examples=200, deadline=None)
@given(keys, keys)
def test_keys_that_are_equal_share_their_hash(one: Hashable, other: Hashable) -> None:
    assert one != other or stable_hash(one) == stable_hash(other)


def test_processes_with_other_hash_seeds_agree() -> None:
    program = (
        "import enum\n"
        "from wallaroo.model.keys.buckets import stable_hash\n"
        "Side = enum.Enum('Side', 'BUY SELL')\n"
        "keys = ['acorn', b'AAPL', 12, -1, 2**80, 1.5, None, True, ('a', (b'b', 3)), '', Side.SELL,"
        " frozenset({'x', 'y', 'z'})]\n"
        "print([stable_hash(key) for key in keys])\n"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert len(answers) == 1


@pytest.mark.parametrize(
    "many",
    [
        list(range(4096)),
        [f"customer {number}" for number in range(4096)],
        [(number % 64, f"{number // 64}") for number in range(4096)],
        [number / 8 for number in range(4096)],
    ],
    ids=["integers", "text", "tuples", "floats"],
)
def test_keys_spread_over_the_buckets_about_evenly(many: list[Any]) -> None:
    counts = Counter(bucket_of(key, 16) for key in many)
    assert len(counts) == 16
    assert max(counts.values()) < 2 * 4096 / 16


@pytest.mark.parametrize("key", [[1], {"a": 1}, {1}, ("a", [1]), bytearray(b"x")], ids=repr)
def test_a_key_that_cannot_be_hashed_is_refused(key: Any) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        stable_hash(key)


def test_members_of_an_enumeration_are_told_apart_by_their_names() -> None:
    assert stable_hash(Side.BUY) == stable_hash("BUY")
    assert stable_hash(Side.BUY) != stable_hash(Side.SELL)


@given(
    st.lists(st.integers()) | st.lists(st.text()) | st.lists(st.binary()) | st.lists(keys),
    st.sampled_from([1, 300]),
    st.integers(1, 1000),
)
def test_keys_that_are_looked_up_together_have_the_buckets_they_have_alone(
    few: list[Any], times: int, buckets: int
) -> None:
    many = few * times
    alone = [bucket_of(key, buckets) for key in many]
    assert buckets_of(many, buckets, lambda key: bucket_of(key, buckets)) == alone
