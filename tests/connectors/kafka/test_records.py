"""Records survive the journal and the outbox, whatever they hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.connectors.kafka.records import (
    KafkaRecord,
    packed,
    packed_output,
    record_of,
    unpacked,
)

_BYTES = st.none() | st.binary(max_size=40)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
RECORDS = st.builds(
    KafkaRecord,
    _BYTES,
    _BYTES,
    st.lists(st.tuples(_TEXT, _BYTES), max_size=4).map(tuple),
    st.none() | st.integers(0, 2**62),
    st.none() | st.integers(0, 2**31 - 1),
    st.none() | st.integers(0, 2**62),
)


@given(RECORDS)
def test_a_record_is_unpacked_as_it_was_packed(record: KafkaRecord) -> None:
    assert unpacked(packed(record)) == record


@given(_BYTES, _BYTES, st.none() | st.integers(0, 100))
def test_the_forms_that_an_encoder_returns_mean_the_same(
    value: bytes | None, key: bytes | None, partition: int | None
) -> None:
    record = KafkaRecord(value, key, partition=partition)
    assert record_of((value, key, partition)) == record_of(record) == record
    assert record_of((value, key)) == KafkaRecord(value, key)
    for encoded in (record, value, (value, key), (value, key, partition)):
        assert packed_output(encoded) == packed(record_of(encoded))


@pytest.mark.parametrize(
    ("encoded", "told"),
    [
        (KafkaRecord(b"", timestamp_ms=0), "timestamp_ms of a record is 0; expected 1 to 92233"),
        (KafkaRecord(b"", timestamp_ms=2**63), "timestamp_ms of a record is 9223372036854775808; "),
        (KafkaRecord(b"", partition=-5), "partition of a record is -5; expected 0 to 2147483647"),
        ((b"", b"", "0"), "partition of a record is '0'; expected an int or None"),
        ((b"", b"", 2**40), "partition of a record is 1099511627776; expected 0 to"),
        (KafkaRecord(b"", headers=(("a\0b", b""),)), "the name 'a\\\\x00b'; expected no NUL"),
        (KafkaRecord(b"", headers={"ab": b""}), "the header 'ab'; expected a pair of name and v"),  # type: ignore[arg-type]
        (KafkaRecord(b"", headers=((1, b""),)), r"the header \(1, b''\); expected a pair"),  # type: ignore[arg-type]
    ],
)
def test_a_part_of_a_record_that_is_none_is_named(encoded: Any, told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        packed_output(encoded)
