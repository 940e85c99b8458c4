"""What crosses the exchange, as bytes: messages of one bucket.

Payloads and plain values go by `marshal`, which costs a tenth of pickling; it never meets anything
that was not packed by this module a moment ago.
"""

from __future__ import annotations

import marshal
import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

Arrivals = list[int | None]
"""Arrival numbers of messages; empty for payloads, which tell by themselves what they are."""
Runs = list[tuple[int, list[Any], Arrivals]]
"""What one key gets: in order of arrival, the number of a leg, items that go there, and where they
come from."""
Group = list[tuple[int, Any, Runs]]
"""What one bucket gets: (number of a state partition, key, runs)."""
Rows = tuple[int, int, list[Any], list[Any], Arrivals]
"""Items of many keys: number of a state partition, number of a leg, keys, an item for each, and
where they come from."""
Stamp = tuple[int, ...]
"""Place in the order of arrival: arrival number, wall clock at arrival in nanoseconds, number of
the way; then, for what steps and forks made of the message, which it was of what they made."""
Stamped = tuple[Stamp, int, Any, Any]
"""An item on its own: (stamp, number of a leg, key, item); a tick has leg `TICK`."""
TICK = -1
"""Number in the place of a leg where an item is no message but the clock."""


class Packed(NamedTuple):
    """What goes to one bucket at one level."""

    level: int
    bucket: int
    blob: bytes


_PLAIN = {bytes, str, int, float, bool, type(None)}
"""Types that `marshal` gives back as they were: no subclasses, nothing mutable."""
_MARSHALLED, _PICKLED = b"m", b"p"
_ROWS_MARSHALLED, _ROWS_PICKLED = b"r", b"R"
_STAMPED_MARSHALLED, _STAMPED_PICKLED = b"M", b"P"
_WITHOUT_REFERENCES = 2
"""A version of `marshal`; later ones look up each value, for the case that it comes again."""


def packed_group(group: Group) -> bytes:
    """*group* as bytes.

    Raises:
        Exception: Something in it does not pickle.
    """
    plain = all(
        type(key) in _PLAIN and all(_are_plain(items) for _, items, _ in runs)
        for _, key, runs in group
    )
    if plain:
        return _MARSHALLED + _marshalled(group)
    return _PICKLED + pickle.dumps(group, protocol=5)


def unpacked_group(blob: bytes) -> Group:
    """The group that `packed_group` made *blob* of."""
    load = marshal.loads if blob[:1] == _MARSHALLED else pickle.loads
    group: Group = load(memoryview(blob)[1:])
    return group


def packed_rows(rows: list[Rows]) -> bytes:
    """*rows* as bytes: for keys that have few items each, half the cost of `packed_group`.

    Raises:
        Exception: Something in it does not pickle.
    """
    if all(_are_plain(keys) and _are_plain(items) for _, _, keys, items, _ in rows):
        return _ROWS_MARSHALLED + _marshalled(rows)
    return _ROWS_PICKLED + pickle.dumps(rows, protocol=5)


def unpacked_rows(blob: bytes) -> list[Rows]:
    """The rows that `packed_rows` made *blob* of."""
    load = marshal.loads if blob[:1] == _ROWS_MARSHALLED else pickle.loads
    rows: list[Rows] = load(memoryview(blob)[1:])
    return rows


def packed_items(items: list[Stamped]) -> bytes:
    """*items* as bytes.

    Raises:
        Exception: Something in it does not pickle.
    """
    if all(type(key) in _PLAIN and type(item) in _PLAIN for _, _, key, item in items):
        return _STAMPED_MARSHALLED + _marshalled(items)
    return _STAMPED_PICKLED + pickle.dumps(items, protocol=5)


def unpacked_items(blob: bytes) -> list[Stamped]:
    """The items that `packed_items` made *blob* of."""
    load = marshal.loads if blob[:1] == _STAMPED_MARSHALLED else pickle.loads
    items: list[Stamped] = load(memoryview(blob)[1:])
    return items


def holds_items(blob: bytes) -> bool:
    """Whether `packed_items` made *blob*."""
    return blob[:1] in {_STAMPED_MARSHALLED, _STAMPED_PICKLED}


def holds_rows(blob: bytes) -> bool:
    """Whether `packed_rows` made *blob*."""
    return blob[:1] in {_ROWS_MARSHALLED, _ROWS_PICKLED}


def problem_of_pickling(key: Any, item: Any) -> Exception | None:
    """Why *item*, a message of *key*, cannot be packed; None if it can."""
    try:
        pickle.dumps((key, item), protocol=5)
    except Exception as error:
        return error
    return None


def _are_plain(values: Sequence[Any]) -> bool:
    # the copy fetches all into the processor's cache at once: a loop waits for one after the other
    return _PLAIN.issuperset(map(type, [*values]))


def _marshalled(value: Any) -> bytes:
    return marshal.dumps(value, _WITHOUT_REFERENCES)
