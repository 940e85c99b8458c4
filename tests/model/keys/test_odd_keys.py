"""Equal keys have one bucket in every process; what cannot be promised that is not a key."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Hashable
from datetime import UTC, datetime, time, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.odd_keys import (
    EQUAL,
    INVALID,
    Account,
    Basket,
    Level,
    Pair,
    Side,
    Slotted,
    Text,
    key_named,
)
from wallaroo.dataflow.json_codec import from_plain, to_plain
from wallaroo.dataflow.packing import Rows, packed_rows, unpacked_rows
from wallaroo.model.keys import buckets as model
from wallaroo.model.keys.buckets import InvalidKey, is_safe, stable_hash


def _frozen(items: list[Any]) -> Any:
    try:
        return frozenset(items)
    except TypeError:
        return tuple(items)


ZONES = st.sampled_from(
    [*map(ZoneInfo, ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Africa/Cairo"))]
    + [timezone(timedelta(minutes=minutes)) for minutes in (-720, -30, 0, 60, 345)]
)
MOMENTS = st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1), timezones=ZONES)
NUMBERS = st.one_of(
    st.integers(),
    st.integers(-3, 3),
    st.booleans(),
    st.floats(),
    st.decimals(places=2),
    st.fractions(),
    st.complex_numbers(),
    st.floats(width=32).map(np.float32),
    st.just(Level.LOW),
)
ATOMS = st.one_of(
    st.none(),
    NUMBERS,
    st.text(max_size=2),
    st.text(max_size=2).map(Text),
    st.text("Aa", max_size=2).map(np.str_),
    st.binary(max_size=2),
    MOMENTS,
    MOMENTS.map(pd.Timestamp),
    st.datetimes(),
    st.dates(),
    st.times(timezones=ZONES),
    st.timedeltas(),
    st.uuids(),
    st.builds(range, st.integers(-3, 3), st.integers(-3, 3), st.sampled_from([-2, -1, 1, 2])),
    st.ip_addresses(),
    st.sampled_from(Side),
    st.lists(st.integers(0, 2)),
    st.just(object),
    st.builds(object),
)
KEYS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.builds(Pair, inner, inner),
        st.builds(Account, inner, inner),
        st.builds(Slotted, inner),
        st.builds(Basket, st.text(max_size=1), st.lists(inner, max_size=2).map(tuple)),
        st.lists(inner, max_size=3).map(_frozen),
    ),
    max_leaves=6,
)


def is_key(value: Any) -> bool:
    try:
        stable_hash(value)
    except InvalidKey:
        return False
    return True


@pytest.mark.parametrize("name", EQUAL)
def test_equal_keys_have_one_hash_and_so_do_their_copies(name: str) -> None:
    keys = EQUAL[name]
    assert len(set(keys)) == 1
    copies = pickle.loads(pickle.dumps(keys))
    assert len({stable_hash(key) for key in (*keys, *copies)}) == 1
    assert set(copies) == set(keys)


@pytest.mark.parametrize("name", INVALID)
def test_what_is_not_a_key_is_refused_with_what_to_return_instead(name: str) -> None:
    value, said = INVALID[name]
    for _ in range(2):
        with pytest.raises(InvalidKey, match=said) as refused:
            stable_hash(value)
        assert "instead" in str(refused.value)
        if "nan" not in name:  # which passes for no key, since it is equal to nothing
            assert not is_safe(value)


def are_equal(one: Any, other: Any) -> bool:
    """Whether *one* equals *other*; False if they cannot be compared, as scalars and tuples."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return bool(one == other)
        except (RuntimeWarning, ValueError):  # of NumPy
            return False


@settings(max_examples=400, deadline=None)
@given(KEYS, KEYS)
def test_values_that_are_equal_share_their_hash_or_are_no_keys(one: Any, other: Any) -> None:
    assume(is_key(one) and is_key(other))
    assert pickle.loads(pickle.dumps(one)) == one
    if hash(one) == hash(other) and are_equal(one, other):
        assert stable_hash(one) == stable_hash(other)


@settings(max_examples=200, deadline=None)
@given(KEYS)
def test_what_may_be_looked_up_is_a_key_or_equal_to_nothing(value: Any) -> None:
    if is_safe(value):
        assert is_key(value) or pickle.loads(pickle.dumps(value)) != value


@settings(max_examples=200, deadline=None)
@given(MOMENTS, ZONES, st.text(max_size=2))
def test_a_moment_is_one_key_in_every_zone(moment: datetime, zone: Any, text: str) -> None:
    other = moment.astimezone(zone)
    assume(other == moment)  # in the hour that comes twice, Python says they are not
    for wrap in (lambda at: at, lambda at: (text, at), lambda at: Account(text, (at,)), Slotted):
        assert stable_hash(wrap(moment)) == stable_hash(wrap(other))
    assert stable_hash(pd.Timestamp(moment)) == stable_hash(moment) or moment.fold


@settings(max_examples=200, deadline=None)
@given(st.times(timezones=st.just(UTC)), st.integers(-600, 600))
def test_equal_times_of_two_zones_are_one_key(at: time, minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    moved = (datetime.combine(datetime(2026, 3, 1), at) + timedelta(minutes=minutes)).time()
    other = moved.replace(tzinfo=zone)
    if at == other:
        assert stable_hash(at) == stable_hash(other)


def test_cases_that_paths_of_windows_take_for_one_are_folded_to_one() -> None:
    """What is lower-cased to the same text has to be folded to the same."""
    for point in range(sys.maxunicode + 1):
        assert chr(point).lower().casefold() == chr(point).casefold()


def test_processes_with_other_hash_seeds_agree_on_every_key() -> None:
    names = [f"{name} {number}" for name, keys in EQUAL.items() for number in range(len(keys))]
    program = (
        "import json, sys\n"
        "from tests.odd_keys import key_named\n"
        "from wallaroo.model.keys.buckets import stable_hash\n"
        "print(json.dumps([stable_hash(key_named(name)) for name in json.load(sys.stdin)]))\n"
    )
    here = [stable_hash(key_named(name)) for name in names]
    for seed in ("0", "1", "4711"):
        answer = subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(names),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(answer.stdout) == here


@pytest.mark.parametrize("name", EQUAL)
def test_keys_are_equal_to_what_an_exchange_and_an_export_make_of_them(name: str) -> None:
    for key in EQUAL[name]:
        rows: list[Rows] = [(0, 0, [key], [b"payload"], [0])]
        assert unpacked_rows(packed_rows(rows, b""))[0][0][2] == [key]
        told = json.loads(json.dumps(to_plain(key)))
        if "$repr" not in json.dumps(told):  # what JSON has no word for is refused by an import
            assert from_plain(told) == key
            assert stable_hash(from_plain(told)) == stable_hash(key)


def test_a_class_of_key_that_is_made_in_a_function_is_not_remembered() -> None:
    known = len(model._CLASSES)
    for _ in range(3):
        hidden: Hashable = type("Hidden", (str,), {"__qualname__": "f.<locals>.Hidden"})("a")
        assert not is_key(hidden)
    assert len(model._CLASSES) == known
