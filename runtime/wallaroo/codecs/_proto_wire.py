"""Protobuf's wire format, as far as headers and damaged messages need it."""

from __future__ import annotations

from typing import Any

from wallaroo.codecs._confluent import NoHeader

_MAX_VARINT = 10
_MAX_DEPTH = 100
"""Messages within messages that Protobuf accepts."""
_VARINT, _FIXED64, _LENGTH, _START, _END, _FIXED32 = range(6)
_MOST_INDEXES = 100


def read_indexes(payload: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """Return the place of a message in its schema, and where the message begins.

    Raises:
        NoHeader: The payload does not begin with such a place.

    Example:
        >>> read_indexes(bytes([0, 99]), 0), read_indexes(bytes([4, 2, 0, 99]), 0)
        (((0,), 1), ((1, 0), 3))
    """
    indexes: list[int] = []
    try:
        count, at = _zigzag(payload, start)
        if not count:
            return (0,), at
        for _ in range(min(count, _MOST_INDEXES)):
            index, at = _zigzag(payload, at)
            indexes.append(index)
    except _Truncated:
        count = -1
    if count != len(indexes):
        msg = f"no numbers of a message in its schema follow the header - at byte {start}"
        raise NoHeader(msg)
    return tuple(indexes), at


def written_indexes(place: tuple[int, ...]) -> bytes:
    r"""Return what `read_indexes` reads.

    Example:
        >>> written_indexes((0,)), written_indexes((1, 0))
        (b'\x00', b'\x04\x02\x00')
    """
    if place == (0,):
        return b"\0"
    return b"".join(map(_as_zigzag, (len(place), *place)))


def place_of_damage(payload: bytes, descriptor: Any) -> str | None:
    """Return where *payload* is no message of the class with *descriptor*; None if unknown."""
    try:
        _walk(payload, 0, len(payload), descriptor, "$", 0)
    except _Damaged as damaged:
        return str(damaged)
    return None


class _Truncated(Exception):
    pass


class _Damaged(Exception):
    pass


def _walk(data: bytes, at: int, end: int, descriptor: Any, path: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        msg = f"there are more than {_MAX_DEPTH} messages within each other - at `{path[:200]}`"
        raise _Damaged(msg)
    while at < end:
        start, where = at, path
        try:
            tag, at = _varint(data, at, end)
            number, kind = tag >> 3, tag & 7
            field = None if descriptor is None else descriptor.fields_by_number.get(number)
            where = f"{path}.{number if field is None else field.name}"
            if not number or kind > _FIXED32 or kind == _END:
                msg = f"no field begins here - at `{path}` (byte {start})"
                raise _Damaged(msg)
            if kind == _START:  # a group, which nothing says more about
                return
            if kind == _VARINT:
                _, at = _varint(data, at, end)
                continue
            size = {_FIXED64: 8, _FIXED32: 4}.get(kind)
            if size is None:
                size, at = _varint(data, at, end)
            if size > end - at:
                msg = f"expected {size} bytes, and {end - at} are left - at `{where}` (byte {at})"
                raise _Damaged(msg)
        except _Truncated:
            msg = f"the message is truncated - at `{where}` (byte {start})"
            raise _Damaged(msg) from None
        if kind == _LENGTH and field is not None:
            _check_value(data, at, at + size, field, where, depth)
        at += size


def _check_value(data: bytes, at: int, end: int, field: Any, where: str, depth: int) -> None:
    if field.type == field.TYPE_MESSAGE:
        _walk(data, at, end, field.message_type, where, depth + 1)
    elif field.type == field.TYPE_STRING:
        try:
            data[at:end].decode()
        except UnicodeDecodeError as error:
            msg = f"the text is not UTF-8: {error} - at `{where}` (byte {at})"
            raise _Damaged(msg) from None


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    number = 0
    for place, byte in enumerate(data[at : min(end, at + _MAX_VARINT)]):
        number |= (byte & 0x7F) << 7 * place
        if not byte & 0x80:
            return number, at + place + 1
    raise _Truncated


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number, at = _varint(data, at, len(data))
    return (number >> 1) ^ -(number & 1), at


def _as_zigzag(number: int) -> bytes:
    rest, encoded = number << 1, bytearray()
    while rest > 0x7F:  # noqa: PLR2004
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
