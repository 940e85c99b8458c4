"""Sorts messages of many keys by bucket, in bulk, without a loop over messages."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wallaroo.dataflow.message_snapshots import Snapshot
from wallaroo.dataflow.packing import Rows
from wallaroo.model.keys.buckets import stable_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wallaroo.dataflow.program import StatefulStage

_BYTES = 8
"""Size of a number's hash."""


class Keyed(NamedTuple):
    """Messages on their way to a stateful step, in order of arrival."""

    keys: Sequence[Any]
    items: Sequence[Snapshot]
    """Snapshots of the messages."""
    arrivals: Sequence[int]
    """Offsets of the messages from which they originate."""


def rows_by_bucket(
    arrived: Sequence[tuple[StatefulStage, Keyed]], buckets: int
) -> Iterator[tuple[int, Rows]]:
    """Yield messages for the stages of one partition by bucket, each in order of arrival.

    Raises:
        Exception: A key is not valid.
    """
    stages = {stage.number: stage for stage, _ in arrived}
    counts = [len(keyed.keys) for _, keyed in arrived]
    stage_of = np.repeat([stage.number for stage, _ in arrived], counts)
    keys = list(chain.from_iterable(keyed.keys for _, keyed in arrived))
    bucket_of = buckets_of(keys, buckets)
    order = np.argsort(bucket_of, kind="stable")
    stage_of, bucket_of = stage_of[order], bucket_of[order]
    begins = np.flatnonzero(np.diff(bucket_of, prepend=-1) | np.diff(stage_of, prepend=-1))

    places = order.tolist()
    keys = _sorted(keys, places)
    items = _sorted(chain.from_iterable(keyed.items for _, keyed in arrived), places)
    arrivals = _sorted(chain.from_iterable(keyed.arrivals for _, keyed in arrived), places)
    for begin, end in pairwise([*begins.tolist(), len(keys)]):
        stage = stages[stage_of[begin]]
        row = stage.partition, stage.number, keys[begin:end], items[begin:end], arrivals[begin:end]
        yield int(bucket_of[begin]), row


def buckets_of(keys: Sequence[Any], buckets: int) -> NDArray[np.unsignedinteger[Any]]:
    """Return the bucket of each key, as `wallaroo.model.keys.buckets.bucket_of` does.

    Raises:
        Exception: A key is not valid.

    Example:
        >>> from wallaroo.model.keys.buckets import bucket_of
        >>> buckets_of([1, 2, 3], 16).tolist() == [bucket_of(key, 16) for key in (1, 2, 3)]
        True
    """
    kinds, hashes = set(map(type, keys)), np.empty(0, np.uint32)
    if kinds == {int}:
        hashes = _hashes(np.fromiter(map(hash, keys), "<i8", len(keys)))
    elif kinds == {bytes}:
        hashes = np.fromiter(map(zlib.crc32, keys), np.uint32, len(keys))
    elif kinds:
        hashes = np.fromiter(map(stable_hash, keys), np.uint32, len(keys))
    return (hashes % buckets).astype(np.min_scalar_type(buckets))  # 16-bit values are radix-sorted


def selected(mask: Sequence[bool], *columns: Sequence[Any]) -> list[list[Any]]:
    """Return the values of each column where *mask* is true."""
    return [list(compress(column, mask)) for column in columns]


def _hashes(numbers: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the CRC-32 of each number, combined from the contributions of its bytes."""
    of_zero, tables = _contributions()
    hashes = np.full(len(numbers), of_zero, np.uint32)
    for table, column in zip(tables, numbers.view(np.uint8).reshape(-1, _BYTES).T, strict=True):
        hashes ^= table[column]
    return hashes


@functools.cache
def _contributions() -> tuple[int, list[NDArray[np.uint32]]]:
    """Return the CRC-32 of zero, and for each byte its contribution by value."""
    of_zero = zlib.crc32(bytes(_BYTES))
    places = [
        [zlib.crc32((value << 8 * place).to_bytes(_BYTES, "little")) for value in range(256)]
        for place in range(_BYTES)
    ]
    return of_zero, [np.array(hashes, np.uint32) ^ np.uint32(of_zero) for hashes in places]


def _sorted(column: Iterable[Any], places: Sequence[int]) -> list[Any]:
    """Return the values of *column* at *places*."""
    return list(map(list(column).__getitem__, places))
