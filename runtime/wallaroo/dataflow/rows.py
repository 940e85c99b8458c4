"""Messages with keys as columns, and the buckets of many keys."""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Callable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

from wallaroo.dataflow.message_snapshots import Snapshot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BYTES = 8
"""Size of a number's hash."""
_MANY = 200
"""From this number of numbers on, numpy hashes them in less time than a loop."""
_HASH = struct.Struct("<q")


class Keyed(NamedTuple):
    """Messages on their way to a stateful step, in order of arrival."""

    keys: list[Any]
    items: list[Snapshot]
    """Snapshots of the messages."""
    arrivals: list[Any]
    """Offsets of the messages from which they originate; see `current_input.offset_of`."""


def buckets_of(keys: Sequence[Any], buckets: int, bucket_of: Callable[[Any], int]) -> list[int]:
    """Return the bucket of each key, as *bucket_of* does, and faster for keys of common classes.

    Args:
        keys: The keys.
        buckets: Number of buckets.
        bucket_of: As `wallaroo.model.keys.buckets.bucket_of` for this number of buckets.

    Raises:
        Exception: A key is not valid.

    Example:
        >>> from wallaroo.model.keys import buckets
        >>> bucket_of = functools.partial(buckets.bucket_of, buckets=16)
        >>> all(
        ...     buckets_of(keys, 16, bucket_of) == list(map(bucket_of, keys))
        ...     for keys in ([1, 2, 3], list(range(-500, 500)), ["a", "é"], [b"a", b""], [1, "a"])
        ... )
        True
    """
    kinds, crc = set(map(type, keys)), zlib.crc32
    if kinds == {bytes}:
        return [crc(key) % buckets for key in keys]
    if kinds == {str}:
        return [crc(key.encode("utf-8", "surrogatepass")) % buckets for key in keys]
    if kinds != {int}:
        return list(map(bucket_of, keys))
    if len(keys) < _MANY:
        pack = _HASH.pack
        return [crc(pack(hash(key))) % buckets for key in keys]
    return (_hashes(keys) % buckets).tolist()  # type: ignore[no-any-return]


def selected(mask: Sequence[bool], *columns: Sequence[Any]) -> list[list[Any]]:
    """Return the values of each column where *mask* is true."""
    return [list(compress(column, mask)) for column in columns]


def _hashes(keys: Sequence[int]) -> NDArray[np.uint32]:
    """Return the CRC-32 of each key's hash, combined from the contributions of its bytes."""
    import numpy as np  # which costs most processes more than it saves them

    numbers = np.fromiter(map(hash, keys), "<i8", len(keys))
    of_zero, tables = _contributions()
    hashes = np.full(len(numbers), of_zero, np.uint32)
    for table, column in zip(tables, numbers.view(np.uint8).reshape(-1, _BYTES).T, strict=True):
        hashes ^= table[column]
    return hashes


@functools.cache
def _contributions() -> tuple[int, list[NDArray[np.uint32]]]:
    """Return the CRC-32 of zero, and for each byte its contribution by value."""
    import numpy as np

    of_zero = zlib.crc32(bytes(_BYTES))
    places = [
        [zlib.crc32((value << 8 * place).to_bytes(_BYTES, "little")) for value in range(256)]
        for place in range(_BYTES)
    ]
    return of_zero, [np.array(hashes, np.uint32) ^ np.uint32(of_zero) for hashes in places]
