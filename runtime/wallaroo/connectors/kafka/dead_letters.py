"""Topics of dead letters: failed messages as records, with headers that tell of the failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from wallaroo.connectors.kafka.records import KafkaRecord, packed
from wallaroo.connectors.kafka.resolve import KafkaSource
from wallaroo.connectors.kafka.stored import is_refused, record_in
from wallaroo.model.lost_messages import LostMessage

_PREFIX = "wallaroo."
"""Begins the names of the headers that tell of the failure."""


def encode(lost: LostMessage) -> bytes:
    """The record of *lost*, as an output of the sink."""
    return packed(record_of_letter(lost))


def record_of_letter(lost: LostMessage) -> KafkaRecord:
    """The record that a topic of dead letters gets of *lost*."""
    source, of_topic = lost.source, isinstance(lost.source, KafkaSource)
    found = KafkaRecord(lost.payload)
    if lost.payload is not None and (source is None or of_topic or source.refuses):
        found = record_in(lost.payload)
        if is_refused(lost.payload):  # no decoder had it
            lost = replace(lost, failed=lost.failed._replace(message="", place=""))
    key = found.key
    if source is not None and not of_topic and lost.failed.key is not None:
        key = _text(lost.failed.key)
    details = tuple((_PREFIX + name, _text(value)) for name, value in _details(lost, found))
    own = tuple(header for header in found.headers if not header[0].startswith(_PREFIX))
    return KafkaRecord(found.value, key, own + details, lost.failed_ns // 1_000_000 or None)


def _details(lost: LostMessage, record: KafkaRecord) -> Iterator[tuple[str, Any]]:
    """What is known of the failure, by name."""
    failed = lost.failed
    found = {
        "application": lost.application,
        "source": None if lost.source is None else lost.source.name,
        "pipeline": failed.pipeline,
        "step": failed.step,
        "place": failed.place,
        "error": failed.error,
        "message": failed.message,
        "key": failed.key,
        "traceback": failed.traceback,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }
    return ((name, value) for name, value in found.items() if value not in {None, ""})


def _text(value: Any) -> bytes:
    """*value* as text; also a name that is none in UTF-8."""
    return str(value).encode("utf-8", "backslashreplace")
