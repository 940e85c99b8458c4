"""Keys that are not listed: what is said of one, and of a source that has little else."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import wallaroo
from tests.applications.counting import Count, count, decode, encode, whole
from wallaroo.model.application import Application, StatePartition
from wallaroo.resolution.application import resolve
from wallaroo.testing import UnlistedKeysWarning, simulate


def application(keys: Any, other_keys: Any = None) -> Application:
    builder = wallaroo.ApplicationBuilder("letters")
    builder.new_pipeline("Letters", wallaroo.TCPSourceConfig("", 0, decode))
    builder.to_state_partition(count, Count, "seen", whole, keys, other_keys)
    return resolve(builder.to_sink(wallaroo.TCPSinkConfig("", 0, encode)).build())


SENT = [("Letters", b"a"), *[("Letters", b"z")] * 50]


@pytest.mark.parametrize("keys", [None, [], ["a", "b"]])
def test_any_key_makes_its_entity_where_none_or_only_the_first_are_listed(keys: Any) -> None:
    result = simulate(application(keys), SENT)
    assert result.outputs[-1] == b"z: 50"
    assert result.unknown_keys == []


def test_a_source_of_other_keys_is_warned_of_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = simulate(application(["a", "b"], "drop"), SENT)
    (warned,) = caught
    assert warned.category is UnlistedKeysWarning
    assert str(warned.message) == (
        "source 'Letters': 50 of 51 messages for step 'count' were dropped, because their keys are "
        "not among those listed for state 'seen': 'a', 'b' (2 keys); return listed keys from the "
        'partition function, list the missing ones, or pass other_keys="add" to accept new keys'
    )
    assert len(result.unknown_keys) == 50


def test_a_few_other_keys_are_not_warned_of() -> None:
    application_of_letters = application(["a", "b"], "drop")
    simulate(application_of_letters, SENT[:10])
    simulate(application_of_letters, SENT[:1] * 50 + SENT)


@pytest.mark.parametrize(
    ("key", "keys", "ending"),
    [
        (97, "ab", ": it is of type int, but the listed keys are of type str; return 'a' instead"),
        (b"a", "ab", ": it is of type bytes, but the listed keys are of type str; return 'a' …"),
        ("c", [b"c"], ": it is of type str, but the listed keys are of type bytes; return b'c' …"),
        (200, "ab", ": it is of type int, but the listed keys are of type str"),
        (-1, "ab", ": it is of type int, but the listed keys are of type str"),
        (2**80, "ab", ": it is of type int, but the listed keys are of type str"),
        ("c", "ab", ""),
    ],
)
def test_a_key_of_another_type_is_refused_with_what_to_return(
    key: Any, keys: Any, ending: str
) -> None:
    partition = StatePartition("seen", Count, frozenset(keys), wallaroo_place())
    expected = f"its key {key!r} is not listed for state 'seen'{ending}"
    assert partition.explain_refusal(key) == expected.replace("…", "instead")


def wallaroo_place() -> Any:
    return application(None).partitions["seen"].place


def test_the_listed_keys_are_named_while_they_are_few() -> None:
    named = application([*"gfedcba"], "drop").partitions["seen"].describe_keys()
    assert named == "'a', 'b', 'c', 'd', 'e', … (7 keys)"
