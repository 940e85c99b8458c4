"""What crosses the exchange: messages of one bucket, by key, as bytes.

Payloads and plain values go by `marshal`, which costs a tenth of pickling; it never meets anything
that was not packed by this module a moment ago.
"""

from __future__ import annotations

import marshal
import pickle
from typing import Any

Runs = list[tuple[int, list[Any]]]
"""What one key gets: in order of arrival, the number of a way and items that go that way."""
Group = list[tuple[int, Any, Runs]]
"""What one bucket gets: (number of a state partition, key, runs)."""

_PLAIN = {bytes, str, int, float, bool, type(None)}
"""Types that `marshal` gives back as they were: no subclasses, nothing mutable."""
_MARSHALLED, _PICKLED = b"m", b"p"


def packed_group(group: Group) -> bytes:
    """*group* as bytes.

    Raises:
        Exception: Something in it does not pickle.
    """
    plain = all(
        type(key) in _PLAIN and all(_PLAIN.issuperset(map(type, items)) for _, items in runs)
        for _, key, runs in group
    )
    if plain:
        return _MARSHALLED + marshal.dumps(group)
    return _PICKLED + pickle.dumps(group, protocol=5)


def unpacked_group(blob: bytes) -> Group:
    """The group that `packed_group` made *blob* of."""
    load = marshal.loads if blob[:1] == _MARSHALLED else pickle.loads
    group: Group = load(memoryview(blob)[1:])
    return group


def problem_of_pickling(key: Any, item: Any) -> Exception | None:
    """Why *item*, a message of *key*, cannot be packed; None if it can."""
    try:
        pickle.dumps((key, item), protocol=5)
    except Exception as error:
        return error
    return None
