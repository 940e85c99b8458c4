"""What crosses the exchange, as bytes: snapshots of messages of one bucket.

They go by `marshal`, which costs a fraction of pickling; it never meets anything that was not
packed by this module a moment ago.
"""

from __future__ import annotations

import marshal
import pickle
from collections import defaultdict
from itertools import islice
from typing import Any, NamedTuple

from wallaroo.dataflow.snapshots import PLAIN, Snapshot, packed, unpacked
from wallaroo.model.callers import time_limited

Arrivals = list[int]
"""Arrival numbers of what messages were made of."""
Runs = list[tuple[int, list[Any], Arrivals]]
"""What one key gets: in order of arrival, the number of a leg, items that go there, and where they
come from."""
Group = list[tuple[int, Any, Runs]]
"""What one bucket gets: (number of a state partition, key, runs)."""
Rows = tuple[int, int, list[Any], list[Any], Arrivals]
"""Items of many keys: number of a state partition, number of a leg, keys, an item for each, and
where they come from."""
Stamp = tuple[int, ...]
"""Place in the order of arrival: arrival number, wall clock at arrival in nanoseconds, number of
the way; then, for what steps and forks made of the message, which it was of what they made."""
Stamped = tuple[Stamp, int, Any, Any]
"""An item on its own: (stamp, number of a leg, key, item); a tick has leg `TICK`."""
TICK = -1
"""Number in the place of a leg where an item is not a message but the clock."""

_GROUP, _ROWS, _STAMPED = b"g", b"r", b"s"
_WITHOUT_REFERENCES = 2
"""A version of `marshal`; later ones look up each value, in case it occurs again."""


class Packed(NamedTuple):
    """What goes to one bucket at one level."""

    level: int
    bucket: int
    blob: bytes


def packed_group(group: Group) -> bytes:
    """*group*, whose items are snapshots, as bytes."""
    of_leg: dict[int, list[Snapshot]] = defaultdict(list)
    """What goes to a leg is of one class as a rule: packed together, it takes the least."""
    runs_of_keys: list[list[tuple[int, int, Arrivals]]] = []
    for _, _, runs in group:
        runs_of_keys.append([(leg, len(items), arrivals) for leg, items, arrivals in runs])
        for leg, items, _ in runs:
            of_leg[leg] += items
    partitions = [partition for partition, _, _ in group]
    keys = _packed_keys([key for _, key, _ in group])
    parcels = [(leg, packed(items)) for leg, items in of_leg.items()]
    return _GROUP + _marshalled((partitions, keys, runs_of_keys, parcels))


def unpacked_group(blob: bytes) -> Group:
    """The group that `packed_group` made *blob* of, with messages in the place of snapshots."""
    partitions, keys, runs_of_keys, parcels = marshal.loads(memoryview(blob)[1:])
    of_leg = {leg: iter(unpacked(parcel)) for leg, parcel in parcels}
    return [
        (
            partition,
            key,
            [(leg, list(islice(of_leg[leg], count)), arrivals) for leg, count, arrivals in runs],
        )
        for partition, key, runs in zip(partitions, _unpacked_keys(keys), runs_of_keys, strict=True)
    ]


def packed_rows(rows: list[Rows]) -> bytes:
    """*rows*, whose items are snapshots, as bytes: for keys that have few items each."""
    made = [
        (partition, leg, _packed_keys(keys), packed(items), arrivals)
        for partition, leg, keys, items, arrivals in rows
    ]
    return _ROWS + _marshalled(made)


def unpacked_rows(blob: bytes) -> list[Rows]:
    """The rows that `packed_rows` made *blob* of, with messages in the place of snapshots."""
    return [
        (partition, leg, _unpacked_keys(keys), unpacked(parcel), arrivals)
        for partition, leg, keys, parcel, arrivals in marshal.loads(memoryview(blob)[1:])
    ]


def packed_items(items: list[Stamped]) -> bytes:
    """*items*, which hold snapshots, as bytes."""
    stamps, legs, keys, taken = zip(*items, strict=True)
    return _STAMPED + _marshalled((stamps, legs, _packed_keys(list(keys)), packed(taken)))


def unpacked_items(blob: bytes) -> list[Stamped]:
    """The items that `packed_items` made *blob* of, with messages in the place of snapshots."""
    stamps, legs, keys, parcel = marshal.loads(memoryview(blob)[1:])
    return list(zip(stamps, legs, _unpacked_keys(keys), unpacked(parcel), strict=True))


def holds_items(blob: bytes) -> bool:
    """Whether `packed_items` made *blob*."""
    return blob[:1] == _STAMPED


def holds_rows(blob: bytes) -> bool:
    """Whether `packed_rows` made *blob*."""
    return blob[:1] == _ROWS


@time_limited
def _packed_keys(keys: list[Any]) -> list[Any] | bytes:
    # the copy brings them all into the processor's cache: a loop waits for one after the other
    if PLAIN.issuperset(map(type, [*keys])):
        return keys
    return pickle.dumps(keys, protocol=5)


@time_limited
def _unpacked_keys(keys: list[Any] | bytes) -> list[Any]:
    return pickle.loads(keys) if isinstance(keys, bytes) else keys


def _marshalled(value: Any) -> bytes:
    return marshal.dumps(value, _WITHOUT_REFERENCES)
