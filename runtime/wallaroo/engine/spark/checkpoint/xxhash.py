"""The checksum of blocks in Spark's changelogs: XXH32, of which Python has no implementation."""

from __future__ import annotations

import struct

_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_MASK = 0xFFFFFFFF
_STRIPE = struct.Struct("<IIII")
_WORD = struct.Struct("<I")


def xxhash32(data: bytes, seed: int) -> int:
    """The XXH32 checksum of *data*.

    Example:
        >>> hex(xxhash32(b"Nobody inspects the spammish repetition", 0))
        '0xe2293b2f'
        >>> hex(xxhash32(b"", 0))
        '0x2cc5d05'
    """
    place, end = 0, len(data)
    if end >= _STRIPE.size:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while place + _STRIPE.size <= end:
            for lane, word in enumerate(_STRIPE.unpack_from(data, place)):
                lanes[lane] = _rotated((lanes[lane] + word * _P2) & _MASK, 13) * _P1 & _MASK
            place += _STRIPE.size
        result = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        result = seed + _P5
    result = (result + end) & _MASK
    while place + _WORD.size <= end:
        (word,) = _WORD.unpack_from(data, place)
        result = _rotated((result + word * _P3) & _MASK, 17) * _P4 & _MASK
        place += _WORD.size
    for byte in data[place:]:
        result = _rotated((result + byte * _P5) & _MASK, 11) * _P1 & _MASK
    result = (result ^ result >> 15) * _P2 & _MASK
    result = (result ^ result >> 13) * _P3 & _MASK
    return result ^ result >> 16


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _MASK
