"""Assigns keys to buckets, identically in all processes, on all machines, after all restarts.

A bucket is the unit in which Spark stores and moves state. Equal keys share a bucket, where
Python's `==` and `hash` find their entity. `hash` cannot determine the bucket, because that of
strings differs between processes. Keys are therefore hashed here: numbers by `hash`, which is the
same everywhere and equal for equal numbers of different types; strings and bytes by CRC-32; tuples
and frozen sets by their items; anything else by a plain value that represents it (see `classes`).
Values without such a representation are not valid keys.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Hashable
from typing import Any

from wallaroo.model.keys.classes import (
    SAFE,
    InvalidKey,
    KeyClass,
    key_class_of,
    require_copy,
)

__all__ = ["SAFE", "InvalidKey", "bucket_of", "is_safe", "stable_hash"]

_PRIME = 1_000_003
_MASK = 0xFFFF_FFFF
_HASH = struct.Struct("<q")
_CLASSES: dict[type, KeyClass] = {kind: key_class_of(kind) for kind in (tuple, frozenset)}
"""Classes of the keys that have occurred."""


def bucket_of(key: Hashable, buckets: int) -> int:
    """Return the bucket of *key*, from 0 to *buckets* - 1.

    Raises:
        InvalidKey: *key* is not a valid key.

    Example:
        >>> bucket_of("AAPL", 16) == bucket_of("AAPL", 16)
        True
        >>> bucket_of(1, 16) == bucket_of(1.0, 16)
        True
    """
    return stable_hash(key) % buckets


def stable_hash(key: Any) -> int:
    """Return a 32-bit hash that is the same for equal keys in every process.

    Raises:
        InvalidKey: *key* is not a valid key.

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
            key_class = _CLASSES.get(kind) or _register(kind)
            mixed = stable_hash(key_class.plain(key))
            if key_class.copied:
                require_copy(key)
    except InvalidKey as error:
        error.within = kind
        raise
    return mixed


def is_safe(key: Any) -> bool:
    """Whether *key* may be looked up in a dictionary of keys, by a cheap check.

    Any other value must be passed to `stable_hash` first: it may equal a key without being a valid
    key itself.
    """
    kind = type(key)
    if kind in SAFE:
        return True
    if kind is tuple:
        return SAFE.issuperset(map(type, key))
    key_class = _CLASSES.get(kind)
    if key_class is None or key_class.parts is None:
        return False
    return SAFE.issuperset(map(type, key_class.parts(key)))


def _register(kind: type) -> KeyClass:
    key_class = key_class_of(kind)
    if "<locals>" not in kind.__qualname__:  # each call of a function creates such a class
        _CLASSES[kind] = key_class
    if key_class.safe:
        SAFE.add(kind)
    return key_class
