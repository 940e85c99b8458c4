"""Records survive the journal and the outbox, whatever they hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.connectors.kafka.records import (
    KafkaRecord,
    packed,
    packed_like,
    packed_output,
    record_of,
    unpacked,
    value_and_kept,
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
    st.none() | st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True),
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
        (KafkaRecord(b"", topic="a b"), "topic of a record is 'a b'; expected at most 249 letters"),
        (KafkaRecord(b"", topic=""), "topic of a record is ''; expected at most"),
        (KafkaRecord(b"", topic=b"a"), "topic of a record is b'a'; expected a str or None"),  # type: ignore[arg-type]
        (KafkaRecord(b"", partition=-5), "partition of a record is -5; expected 0 to 2147483647"),
        ((b"", b"", "0"), "partition of a record is '0'; expected an int or None"),
        ((b"", b"", 2**40), "partition of a record is 1099511627776; expected 0 to"),
        (KafkaRecord(b"", topic="__consumer_offsets"), "'__consumer_offsets', which belongs to"),
        (KafkaRecord(b"", headers=(("a\0b", b""),)), "the name 'a\\\\x00b'; expected no NUL"),
        (KafkaRecord(b"", headers={"ab": b""}), "the header 'ab'; expected a pair of name and v"),  # type: ignore[arg-type]
        (KafkaRecord(b"", headers=((1, b""),)), r"the header \(1, b''\); expected a pair"),  # type: ignore[arg-type]
    ],
)
def test_a_part_of_a_record_that_is_none_is_named(encoded: Any, told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        packed_output(encoded)


@given(RECORDS)
def test_value_key_and_timestamp_are_found_in_a_packed_record(record: KafkaRecord) -> None:
    value, kept = value_and_kept(b"before it" + packed(record), len(b"before it"))
    assert value == (record.value or b"")
    assert kept in {None, (record.key, record.timestamp_ms or None)}
    if record.key is not None or record.offset is not None:
        assert kept is not None


@pytest.mark.parametrize(
    ("encoded", "due"),
    [
        (b"3", KafkaRecord(b"3", b"nut", (), 7000)),
        ("3", KafkaRecord(b"3", b"nut", (), 7000)),
        (("3", "bolt"), KafkaRecord(b"3", b"bolt", (), 7000)),
        (("3", None), KafkaRecord(b"3", None, (), 7000)),
        (("3", None, 2), KafkaRecord(b"3", None, (), 7000, 2)),
        (KafkaRecord(b"3", topic="late"), KafkaRecord(b"3", b"nut", (), 7000, topic="late")),
        (KafkaRecord(b"3", b"bolt", (), 8000), KafkaRecord(b"3", b"bolt", (), 8000)),
        (KafkaRecord(None), KafkaRecord(None, b"nut", (), 7000)),
    ],
)
def test_an_output_has_key_and_timestamp_of_its_record_where_the_encoder_says_nothing(
    encoded: Any, due: KafkaRecord
) -> None:
    assert unpacked(packed_like(encoded, b"nut", 7000)) == due
    assert unpacked(packed_like(encoded, None, None)) == record_of(encoded)


def test_a_record_that_was_read_goes_back_to_its_topic_only_if_the_encoder_names_it() -> None:
    read = unpacked(packed(KafkaRecord(b"3", offset=7, topic="orders")))
    assert read == KafkaRecord(b"3", offset=7, topic="orders")
    assert record_of(read).topic is None
    assert record_of(replace(read, value=b"4")).topic is None
    assert record_of(replace(read, topic="late-orders")).topic == "late-orders"
    assert record_of(KafkaRecord(b"3", topic="orders")).topic == "orders"
