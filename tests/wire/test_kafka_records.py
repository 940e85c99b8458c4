"""Records survive the journal and the outbox, whatever they hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wallaroo.wire.kafka_records import KafkaRecord, packed, packed_output, record_of, unpacked

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
