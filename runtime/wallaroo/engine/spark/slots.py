"""Numbers for buckets that Spark's exchange spreads evenly.

Spark sends a row to the partition that its key hashes to. Left alone, few buckets would crowd on
some partitions while others get none; so each bucket is given a number that hashes where it should.
"""

from __future__ import annotations

import itertools

_MASK = 0xFFFF_FFFF
_SEED = 42
"""Seed of Spark's hash partitioning."""


def slots_for(buckets: int) -> tuple[int, ...]:
    """For each bucket a number of its own, whose hash is the bucket's number modulo *buckets*.

    So Spark sends bucket `b` to partition `b % partitions` wherever *buckets* is a multiple of the
    partitions; what state is kept under does not depend on how many partitions there are.

    Example:
        >>> slots_for(4)
        (12, 6, 2, 0)
    """
    found: dict[int, int] = {}
    for slot in itertools.count():
        found.setdefault(spark_hash(slot) % buckets, slot)
        if len(found) == buckets:
            return tuple(found[bucket] for bucket in range(buckets))
    raise AssertionError


def spark_hash(value: int) -> int:
    """The hash of a 32-bit integer in Spark: Murmur3 (x86, 32 bits), as a signed integer.

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
