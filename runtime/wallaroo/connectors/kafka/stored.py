r"""Stored records: the journal has their values alone, or all of them.

A payload says which of both it is, so that a source can change while some wait, or are dead
letters.

Example:
    >>> stored = whole(KafkaRecord(b"3", key=b"nut", partition=1, offset=7))
    >>> decoding_values(bytes.decode)(stored), decoding_values(bytes.decode)(b"3")
    ('3', '3')
    >>> decoding_records(lambda record: record.key)(stored)
    b'nut'
    >>> decoding_values(bytes.decode)(refused("it is too long", KafkaRecord(None, offset=7)))
    Traceback (most recent call last):
        ...
    wallaroo.wire.refusals.Refused: it is too long
"""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from wallaroo.connectors.kafka.records import KafkaRecord, packed, unpacked, value_in
from wallaroo.user_code.callers import time_limited
from wallaroo.wire.refusals import MARK, Refused, refusal_reason, unguarded

WHOLE = MARK + b"record:"
"""Begins a whole record, before it is packed."""
_REFUSED = MARK + b"refused-record:"
"""Begins a record that the source could not take, with the reason as its value."""


def whole(record: KafkaRecord) -> bytes:
    """What the journal has of a whole *record*."""
    return WHOLE + packed(record)


def refused(reason: str, record: KafkaRecord) -> bytes:
    """What stands for a *record* that a source cannot take, for *reason*; its value is ignored."""
    return _REFUSED + packed(replace(record, value=reason.encode()))


def why_refused(payload: bytes) -> str | None:
    """Why the source could not take the record for which *payload* stands; None if it could."""
    if payload.startswith(_REFUSED):
        return value_in(payload, len(_REFUSED)).decode("utf-8", "replace")
    return refusal_reason(payload)


def is_refused(payload: bytes) -> bool:
    """Whether *payload* stands for a message that a source could not take."""
    return payload.startswith(_REFUSED) or refusal_reason(payload) is not None


def record_in(payload: bytes) -> KafkaRecord:
    """What the journal has of a record, as one; of one that was refused, without a value."""
    if payload.startswith(WHOLE):
        return unpacked(payload[len(WHOLE) :])
    if payload.startswith(_REFUSED):
        return replace(unpacked(payload[len(_REFUSED) :]), value=None)
    return KafkaRecord(None if refusal_reason(payload) is not None else unguarded(payload))


def value_of(payload: bytes) -> bytes:
    r"""The value of a whole record, and any other *payload* as it arrived; none of a refused one.

    Example:
        >>> value_of(whole(KafkaRecord(b"3", key=b"nut"))), value_of(b"4"), value_of(WHOLE)
        (b'3', b'4', b'\x00wallaroo:record:')
        >>> value_of(refused("it is too long", KafkaRecord(None, offset=7)))
        b''
    """
    if is_refused(payload):
        return b""
    if payload.startswith(WHOLE):
        with contextlib.suppress(IndexError, struct.error):  # a message may begin so as well
            return value_in(payload, len(WHOLE))
    return bytes(unguarded(payload))


@time_limited
def decoding_values(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A decoder of payloads and records, from one of values."""

    @functools.wraps(decode)
    def decode_value(payload: Any) -> Any:
        if isinstance(payload, KafkaRecord):
            payload = payload.value or b""
        elif isinstance(payload, bytes) and payload.startswith(MARK):
            if payload.startswith(WHOLE):
                payload = value_in(payload, len(WHOLE))
            elif (reason := why_refused(payload)) is not None:
                raise Refused(reason)
            else:
                payload = unguarded(payload)
        return decode(payload)

    return decode_value


@time_limited
def decoding_records(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A decoder of payloads and records, from one of records."""

    @functools.wraps(decode)
    def decode_record(payload: Any) -> Any:
        if not isinstance(payload, KafkaRecord):
            if (reason := why_refused(payload)) is not None:
                raise Refused(reason)
            payload = record_in(payload)
        return decode(payload)

    return decode_record
