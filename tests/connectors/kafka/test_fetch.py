"""What a consumer brings, as the journal is to have it."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from tests.gateway.harness import U32
from wallaroo.connectors.kafka.fetch import fetch_of
from wallaroo.connectors.kafka.positions import Partition
from wallaroo.connectors.kafka.records import KafkaRecord
from wallaroo.connectors.kafka.stored import record_in, why_refused
from wallaroo.wire.refusals import refusal, refusal_reason, unguarded

LIMIT = 100


def record(partition: int, offset: int, value: bytes | None, **more: Any) -> Message[Any, Any]:
    return Message(topic="t", partition=partition, offset=offset, value=value, **more)


def by_number(offsets: dict[int, int]) -> dict[Partition, int]:
    return {Partition("t", number): offset for number, offset in offsets.items()}


def event(partition: int, offset: int, code: int) -> Message[Any, Any]:
    return record(partition, offset, None, error=KafkaError(code))


def end(partition: int, offset: int) -> Message[Any, Any]:
    return event(partition, offset, KafkaError._PARTITION_EOF)


@pytest.mark.parametrize("longer", [b"", b"of another length"])
def test_records_come_with_the_next_offset_of_each_partition(longer: bytes) -> None:
    fetch = fetch_of(
        [record(0, 7, b"a"), record(3, 1, b"b"), record(0, 9, b"c" + longer)],
        LIMIT,
        whole=False,
    )
    assert U32.split(fetch.data) == [b"a", b"b", b"c" + longer]
    assert (fetch.count, fetch.offsets, fetch.ends, fetch.problem) == (
        3,
        by_number({0: 10, 3: 2}),
        {},
        None,
    )


def test_the_end_of_a_partition_is_no_record_but_moves_its_offset() -> None:
    fetch = fetch_of(
        [record(0, 7, None), end(0, 12), end(1, 4), record(1, 4, b"b")], LIMIT, whole=False
    )
    assert U32.split(fetch.data) == [b"", b"b"]
    assert (fetch.offsets, fetch.ends) == (by_number({0: 12, 1: 5}), by_number({0: 12, 1: 4}))


def test_nothing_behind_an_error_is_taken() -> None:
    failed = event(0, 8, KafkaError._BAD_MSG)
    fetch = fetch_of([record(0, 7, b"a"), failed, record(0, 9, b"c")], LIMIT, whole=False)
    assert U32.split(fetch.data) == [b"a"]
    assert fetch.offsets == by_number({0: 8})
    assert fetch.problem is failed


def test_a_refusal_stands_for_a_record_over_the_limit() -> None:
    long = b"x" * (LIMIT + 1)
    some = [end(1, 3), record(0, 7, b"a"), record(0, 8, long), record(0, 9, b"c"), end(0, 10)]
    fetch = fetch_of(some, LIMIT, whole=False)
    first, refused, last = U32.split(fetch.data)
    assert (first, last) == (b"a", b"c")
    assert refusal_reason(refused) == (
        "record 8 of partition 0 of topic t has 101 bytes; the limit is 100: raise --max-frame for "
        f"those after it; its value begins with b'{'x' * 100}'…"
    )
    assert fetch.offsets == by_number({1: 3, 0: 10})
    assert fetch.problem is None


@pytest.mark.parametrize("value", [b"v" * LIMIT, None])
def test_a_refusal_stands_for_a_record_whose_key_is_over_the_limit(value: bytes | None) -> None:
    fetch = fetch_of([record(0, 7, value, key=b"k" * LIMIT)], LIMIT, whole=True)
    (payload,) = U32.split(fetch.data)
    assert "record 7 of partition 0" in (why_refused(payload) or "")
    assert record_in(payload) == KafkaRecord(None, b"k" * LIMIT, partition=0, offset=7, topic="t")


@pytest.mark.parametrize(("length", "kept"), [(1020, True), (1021, False)])
def test_a_refusal_of_a_whole_record_has_its_headers_unless_they_are_long(
    length: int, kept: bool
) -> None:
    headers = [("unit", b"k" * length), ("", None)]
    fetch = fetch_of([record(0, 7, b"v" * LIMIT, headers=headers)], LIMIT, whole=True)
    (payload,) = U32.split(fetch.data)
    assert record_in(payload).headers == (tuple(headers) if kept else ())


def test_a_whole_record_has_what_belongs_to_it() -> None:
    one = record(2, 5, b"3", key=b"nut", headers=[("unit", b"kg")], timestamp=(1, 7000))
    without = record(2, 6, None, timestamp=(0, 0))
    fetch = fetch_of([one, without], LIMIT, whole=True)
    assert [record_in(payload) for payload in U32.split(fetch.data)] == [
        KafkaRecord(b"3", b"nut", (("unit", b"kg"),), 7000, 2, 5, "t"),
        KafkaRecord(None, None, (), None, 2, 6, "t"),
    ]


def test_no_sender_can_forge_a_refusal() -> None:
    forged = bytes(refusal("forged"))
    some = [record(0, 7, b"a"), record(0, 8, forged)]
    taken = U32.split(fetch_of(some, LIMIT, whole=False).data)
    assert refusal_reason(taken[1]) is None
    assert [unguarded(one) for one in taken] == [b"a", forged]
    for value in (forged, forged[1:]):
        (payload,) = U32.split(fetch_of([record(0, 7, value)], LIMIT, whole=True).data)
        assert why_refused(payload) is None
        assert record_in(payload).value == value
