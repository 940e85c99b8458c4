"""From a key to its bucket, the same in every process, on every machine, after every restart.

A bucket is the unit in which Spark keeps and moves state. Python's own `hash` of text differs from
process to process, so keys are hashed here: numbers by `hash`, which is the same everywhere and
equal for equal numbers of different types; text and bytes by CRC-32; tuples and frozen sets by
their items; dataclasses and named tuples by their fields; enumerations by their name, unless their
members are numbers or text as well; anything else by its pickle, which is right as long as equal
keys have equal pickles.
"""

from __future__ import annotations

import dataclasses
import enum
import numbers
import pickle
import struct
import zlib
from collections.abc import Hashable
from typing import Any

_PRIME = 1_000_003
_MASK = 0xFFFF_FFFF
_HASH = struct.Struct("<q")


def bucket_of(key: Hashable, buckets: int) -> int:
    """The bucket of *key*, from 0 to *buckets* - 1.

    Example:
        >>> bucket_of("AAPL", 16) == bucket_of("AAPL", 16)
        True
        >>> bucket_of(1, 16) == bucket_of(1.0, 16)
        True
    """
    return stable_hash(key) % buckets


def stable_hash(key: Any) -> int:  # noqa: PLR0911
    """A hash of 32 bits that equal keys share in every process.

    Raises:
        TypeError: *key* cannot be hashed.

    Example:
        >>> stable_hash("acorn")
        3211471419
    """
    kind = type(key)
    if kind is str:
        return zlib.crc32(key.encode("utf-8", "surrogatepass"))
    if kind is bytes:
        return zlib.crc32(key)
    if kind is int:
        return zlib.crc32(_HASH.pack(hash(key)))
    hash(key)  # an unhashable key is refused here, with Python's own words
    if key is None or isinstance(key, numbers.Number):
        value = 0 if key is None else hash(key)
        return zlib.crc32(_HASH.pack(value))
    if isinstance(key, (str, bytes)):
        return stable_hash(str.__str__(key) if isinstance(key, str) else bytes(key))
    if isinstance(key, enum.Enum):
        return stable_hash(key.name)
    if isinstance(key, tuple):
        mixed = len(key)
        for item in key:
            mixed = (mixed * _PRIME + stable_hash(item)) & _MASK
        return mixed
    if isinstance(key, frozenset):
        return sum(map(stable_hash, key)) & _MASK
    if dataclasses.is_dataclass(key):
        values = [getattr(key, f.name) for f in dataclasses.fields(key) if f.compare]
        return stable_hash((kind.__qualname__, *values))
    return zlib.crc32(pickle.dumps(key, protocol=5))
