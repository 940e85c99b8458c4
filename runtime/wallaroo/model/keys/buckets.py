"""From a key to its bucket, the same in every process, on every machine, after every restart.

A bucket is the unit in which Spark keeps and moves state. Keys that are equal share their bucket,
and meet there in one entity: Python's own `==` and `hash` find it. `hash` cannot find the bucket,
for that of text differs from process to process. So keys are hashed here: numbers by `hash`, which
is the same everywhere and equal for equal numbers of different types; text and bytes by CRC-32;
tuples and frozen sets by their items; anything else by a plain value that stands for it (see
`key_classes`). What has no such value is not a key.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Hashable, Iterable
from itertools import chain
from typing import Any

from wallaroo.model.keys.classes import (
    SAFE,
    InvalidKey,
    KeyClass,
    key_class_of,
    require_copy,
)

__all__ = ["SAFE", "InvalidKey", "are_safe", "bucket_of", "is_safe", "stable_hash"]

_PRIME = 1_000_003
_MASK = 0xFFFF_FFFF
_HASH = struct.Struct("<q")
_CLASSES: dict[type, KeyClass] = {kind: key_class_of(kind) for kind in (tuple, frozenset)}
"""What is known of the classes of keys that were met."""


def bucket_of(key: Hashable, buckets: int) -> int:
    """The bucket of *key*, from 0 to *buckets* - 1.

    Raises:
        InvalidKey: *key* cannot be one.

    Example:
        >>> bucket_of("AAPL", 16) == bucket_of("AAPL", 16)
        True
        >>> bucket_of(1, 16) == bucket_of(1.0, 16)
        True
    """
    return stable_hash(key) % buckets


def stable_hash(key: Any) -> int:
    """A hash of 32 bits that equal keys share in every process.

    Raises:
        InvalidKey: *key* cannot be one.

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
    try:
        if kind is tuple:
            mixed = len(key)
            for item in key:
                mixed = (mixed * _PRIME + stable_hash(item)) & _MASK
        elif kind is frozenset:
            mixed = sum(map(stable_hash, key)) & _MASK
        else:
            known = _CLASSES.get(kind) or _met(kind)
            mixed = stable_hash(known.plain(key))
            if known.copied:
                require_copy(key)
    except InvalidKey as error:
        error.within = kind
        raise
    return mixed


def is_safe(key: Any) -> bool:
    """Whether *key* may be looked up in a dictionary of keys, as is seen at a glance.

    Anything else has to go through `stable_hash` first: it may be equal to a key without being a
    valid one itself.
    """
    kind = type(key)
    if kind in SAFE:
        return True
    if kind is tuple:
        return SAFE.issuperset(map(type, key))
    known = _CLASSES.get(kind)
    if known is None or known.parts is None:
        return False
    return SAFE.issuperset(map(type, known.parts(key)))


def are_safe(keys: Collection[Any]) -> bool:
    """Whether all of *keys* may be looked up in a dictionary of keys; looks into them, too.

    Example:
        >>> are_safe(["a", 1, ("b", 2)]), are_safe([("c", [])])
        (True, False)
    """
    kinds = set(map(type, keys))
    if kinds <= SAFE:
        return True
    for kind in kinds - SAFE:
        known = _CLASSES.get(kind)
        if known is None or known.parts is None:
            return False
        own: Collection[Any] = keys
        if len(kinds) > 1:
            own = [key for key in keys if type(key) is kind]
        parts: Iterable[Iterable[Any]] = own if kind is tuple else map(known.parts, own)
        if not are_safe(list(chain.from_iterable(parts))):
            return False
    return True


def _met(kind: type) -> KeyClass:
    known = key_class_of(kind)
    if "<locals>" not in kind.__qualname__:  # else one for each call of a function
        _CLASSES[kind] = known
    if known.safe:
        SAFE.add(kind)
    return known
