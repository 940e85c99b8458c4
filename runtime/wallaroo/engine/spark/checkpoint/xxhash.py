"""The checksum of blocks in Spark's changelogs: XXH32, of which Python has no implementation."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_MASK = 0xFFFFFFFF
_STRIPE_BYTES = 16
_WORD = struct.Struct("<I")


def xxhash32(blocks: Sequence[bytes], seed: int) -> list[int]:
    """The XXH32 checksum of each of *blocks*.

    Those of one length are computed together, which is fast if they are many.

    Example:
        >>> [hex(one) for one in xxhash32([b"Nobody inspects the spammish repetition", b""], 0)]
        ['0xe2293b2f', '0x2cc5d05']
    """
    by_length = defaultdict[int, list[int]](list)
    for place, block in enumerate(blocks):
        by_length[len(block)].append(place)
    found = [0] * len(blocks)
    for length, places in by_length.items():
        alike = [blocks[place] for place in places]
        begun = [seed + _P5] * len(alike)
        if length >= _STRIPE_BYTES:
            begun = _stripes(alike, length // _STRIPE_BYTES, seed).tolist()
        for place, block, sum_of_stripes in zip(places, alike, begun, strict=True):
            found[place] = _finished(block, sum_of_stripes)
    return found


def _stripes(blocks: Sequence[bytes], count: int, seed: int) -> NDArray[np.uint64]:
    """The sum of so many first stripes for each of *blocks*, which are equally long."""
    import numpy as np  # which a start on no state does without

    words = np.array([np.frombuffer(block, "<u4", 4 * count) for block in blocks])
    stripes = words.reshape(len(blocks), count, 4).transpose(1, 0, 2) * np.uint32(_P2)
    begin = [(seed + more) & _MASK for more in (_P1 + _P2, _P2, 0, -_P1)]
    lanes = np.tile(np.array(begin, np.uint32), (len(blocks), 1))
    high = np.empty_like(lanes)
    for stripe in np.ascontiguousarray(stripes):
        lanes += stripe
        np.right_shift(lanes, 19, out=high)
        np.left_shift(lanes, 13, out=lanes)
        lanes |= high
        lanes *= np.uint32(_P1)
    by = np.array([1, 7, 12, 18], np.uint32)
    rotated = lanes << by | lanes >> (np.uint32(32) - by)
    return rotated.sum(axis=1, dtype=np.uint64)


def _finished(block: bytes, sum_of_stripes: int) -> int:
    """The checksum of a *block*, from that of its stripes."""
    result, place = (sum_of_stripes + len(block)) & _MASK, len(block) & -_STRIPE_BYTES
    while place + _WORD.size <= len(block):
        (word,) = _WORD.unpack_from(block, place)
        result = _rotated((result + word * _P3) & _MASK, 17) * _P4 & _MASK
        place += _WORD.size
    for byte in block[place:]:
        result = _rotated((result + byte * _P5) & _MASK, 11) * _P1 & _MASK
    result = (result ^ result >> 15) * _P2 & _MASK
    result = (result ^ result >> 13) * _P3 & _MASK
    return result ^ result >> 16


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _MASK
