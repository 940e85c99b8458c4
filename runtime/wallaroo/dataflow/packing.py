"""Packs snapshots of messages for one bucket into bytes, to cross the exchange.

Packing uses `marshal`, which costs a fraction of pickling; it is only applied to data that this
module has packed shortly before.
"""

from __future__ import annotations

import marshal
import pickle
from typing import Any

from wallaroo.dataflow.current_input import offset_of
from wallaroo.dataflow.current_message import FEW_BYTES, arrivals_of
from wallaroo.dataflow.message_snapshots import PLAIN, packed, unpacked
from wallaroo.user_code.callers import time_limited

Rows = tuple[int, int, list[Any], list[Any], list[Any]]
"""Items: number of a state partition, number of a stage, keys, one item for each, and the offsets
of the messages from which they originate; see `current_input.offset_of`."""
Stamp = tuple[int, ...]
"""Position in the order of arrival: offset, wall clock at arrival in nanoseconds, for how long its
source was held until then, number of the source path; then, for each step or fork passed, the index
among its outputs."""
Stamped = tuple[Any, ...]
"""A single item: (stamp, number of a stage, key, item), and what outputs keep, if some do; a tick
has the stage `TICK`."""
TICK = -1
"""Instead of the number of a stage: the item is a tick of the clock, not a message. What follows
the clock in its stamp is each source that was held, and for how long."""

_ROWS, _STAMPED = b"r", b"s"
_WITHOUT_REFERENCES = 2
"""A version of `marshal`; later versions look up each value to detect repetitions."""


def packed_rows(rows: list[Rows], arrivals: bytes) -> bytes:
    """Pack *rows*, whose items are snapshots, with the packed *arrivals* of the chunk."""
    if len(arrivals) > FEW_BYTES:
        arrivals = arrivals_of((offset_of(one) for row in rows for one in row[-1]), arrivals)
    packed_columns: list[Any] = [
        (partition, stage, _packed_keys(keys), packed(items), offsets)
        for partition, stage, keys, items, offsets in rows
    ]
    packed_columns.append(arrivals)
    return _ROWS + _marshalled(packed_columns)


def unpacked_rows(blob: bytes) -> tuple[list[Rows], bytes]:
    """Unpack the result of `packed_rows`, with messages instead of snapshots.

    Returns:
        The rows and, still packed, the arrivals.
    """
    packed_columns = marshal.loads(memoryview(blob)[1:])
    arrivals = packed_columns.pop()
    rows = [
        (partition, stage, _unpacked_keys(keys), unpacked(parcel), offsets)
        for partition, stage, keys, parcel, offsets in packed_columns
    ]
    return rows, arrivals


def packed_items(items: list[Stamped], arrivals: bytes) -> bytes:
    """Pack *items*, which contain snapshots, with the packed *arrivals* of the chunk."""
    stamps, stages, keys, snapshots, *kept = zip(*items, strict=True)
    if len(arrivals) > FEW_BYTES:
        arrivals = arrivals_of((stamp[0] for stamp in stamps), arrivals)
    columns = (arrivals, stamps, stages, _packed_keys(list(keys)), packed(snapshots), *kept)
    return _STAMPED + _marshalled(columns)


def unpacked_items(blob: bytes) -> tuple[list[Stamped], bytes]:
    """Unpack the result of `packed_items`, as `unpacked_rows` does."""
    arrivals, stamps, stages, keys, parcel, *kept = marshal.loads(memoryview(blob)[1:])
    columns = (stamps, stages, _unpacked_keys(keys), unpacked(parcel), *kept)
    return list(zip(*columns, strict=True)), arrivals


def holds_items(blob: bytes) -> bool:
    """Whether *blob* is a result of `packed_items`."""
    return blob[:1] == _STAMPED


@time_limited
def _packed_keys(keys: list[Any]) -> list[Any] | bytes:
    # the copy loads them all into the processor's cache; a loop would wait for each
    if PLAIN.issuperset(map(type, [*keys])):
        return keys
    return pickle.dumps(keys, protocol=5)


@time_limited
def _unpacked_keys(keys: list[Any] | bytes) -> list[Any]:
    return pickle.loads(keys) if isinstance(keys, bytes) else keys


def _marshalled(value: Any) -> bytes:
    return marshal.dumps(value, _WITHOUT_REFERENCES)
