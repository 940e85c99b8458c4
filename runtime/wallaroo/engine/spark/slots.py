"""Assigns numbers to buckets that Spark's exchange distributes evenly.

Spark sends a row to the partition given by the hash of its key. With arbitrary numbers, some
partitions would get many buckets and others none, so each bucket gets a number with the right hash.
"""

from __future__ import annotations

import itertools

_MASK = 0xFFFF_FFFF
_SEED = 42
"""Seed of Spark's hash partitioning."""


def slots_for(buckets: int) -> tuple[int, ...]:
    """Return a distinct number for each bucket, whose hash modulo *buckets* is the bucket.

    Spark then sends bucket `b` to partition `b % partitions` if *buckets* is a multiple of the
    number of partitions, and the keys of the state do not depend on that number.

    Example:
        >>> slots_for(4)
        (12, 6, 2, 0)
    """
    slots: dict[int, int] = {}
    for slot in itertools.count():
        slots.setdefault(spark_hash(slot) % buckets, slot)
        if len(slots) == buckets:
            return tuple(slots[bucket] for bucket in range(buckets))
    raise AssertionError


def spark_hash(value: int) -> int:
    """Return Spark's hash of a 32-bit integer: Murmur3 (x86, 32 bits), as a signed integer.

    Source: Austin Appleby's MurmurHash3_x86_32, which Spark's `Murmur3_x86_32.hashInt` follows.

    Example:
        >>> spark_hash(1)
        -559580957
    """
    mixed = (value * 0xCC9E2D51) & _MASK
    mixed = (_rotated(mixed, 15) * 0x1B873593) & _MASK
    state = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    state ^= 4  # bytes hashed
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _MASK
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK
