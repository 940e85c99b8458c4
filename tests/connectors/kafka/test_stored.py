"""Payloads of the journal say what they are, so that a source can change while some wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wallaroo
from wallaroo.connectors.kafka.resolve import KafkaSource
from wallaroo.connectors.kafka.stored import record_in, refused, whole
from wallaroo.resolution.application import resolve
from wallaroo.wire.refusals import Refused, guarded, refusal

RECORD = wallaroo.KafkaRecord(b"3", b"nut", (("unit", b"kg"),), 7, 1, 5)
FORGED = bytes(refusal("forged"))


def topic(*, envelope: bool) -> KafkaSource:
    config = wallaroo.KafkaSourceConfig("t", "a", lambda given: given, envelope=envelope)
    pipeline = wallaroo.source("t", config).to_sink(
        wallaroo.TCPSinkConfig("", 1, wallaroo.encoder(str))
    )
    (source,) = resolve(wallaroo.build_application("app", pipeline)).sources
    assert isinstance(source, KafkaSource)
    return source


def test_a_decoder_of_values_gets_values_whatever_is_stored() -> None:
    decode: Callable[[Any], Any] = topic(envelope=False).decode
    assert decode(b"3") == decode(whole(RECORD)) == decode(RECORD) == b"3"
    assert decode(whole(wallaroo.KafkaRecord(b"3"))) == b"3"
    assert decode(whole(wallaroo.KafkaRecord(None, b"nut"))) == b""
    assert decode(guarded(FORGED)) == decode(whole(wallaroo.KafkaRecord(FORGED))) == FORGED


def test_a_decoder_of_records_gets_records_whatever_is_stored() -> None:
    decode: Callable[[Any], Any] = topic(envelope=True).decode
    assert decode(whole(RECORD)) == decode(RECORD) == RECORD
    assert decode(b"3") == wallaroo.KafkaRecord(b"3")
    assert decode(guarded(FORGED)) == wallaroo.KafkaRecord(FORGED)


@pytest.mark.parametrize("envelope", [False, True])
def test_a_record_that_was_refused_raises_why_and_keeps_its_place(envelope: bool) -> None:
    source = topic(envelope=envelope)
    for payload in (refused("too long", RECORD), refusal("too long")):
        with pytest.raises(Refused, match="too long"):
            source.decode(payload)
        assert source.shown(payload) == payload
    kept = record_in(refused("too long", RECORD))
    assert (kept.value, kept.key, kept.partition, kept.offset) == (None, b"nut", 1, 5)


def test_a_message_is_shown_as_its_decoder_gets_it() -> None:
    assert topic(envelope=False).shown(whole(RECORD)) == b"3"
    assert topic(envelope=True).shown(whole(RECORD)) == RECORD


def test_whole_records_are_stored_if_the_decoder_or_anything_else_requires_them() -> None:
    assert topic(envelope=True).stores_records
    values = topic(envelope=False)
    assert not values.stores_records
    assert values.storing_records().stores_records
    assert not values.storing_records().envelope
