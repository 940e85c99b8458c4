"""Small files of JSON with a checksum, so that a changed byte is found when they are read."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

CHECKSUM = "checksum"
"""Name of the checksum among the values of a file."""


def sealed(values: Mapping[str, Any]) -> str:
    """*values* and their checksum, as the text of a file.

    Example:
        >>> text = sealed({"partitions": 2})
        >>> unsealed(text)
        {'partitions': 2}
        >>> unsealed(text.replace("2", "3", 1))
        Traceback (most recent call last):
        ...
        ValueError: its contents do not match their checksum
    """
    return json.dumps({**values, CHECKSUM: _checksum(values)}, indent=2) + "\n"


def unsealed(text: str) -> dict[str, Any]:
    """The values in a *text* that `sealed` returned.

    Raises:
        ValueError: It is not such a text, or was changed.
    """
    values = json.loads(text)
    if not isinstance(values, dict) or CHECKSUM not in values:
        msg = "it has no checksum"
        raise ValueError(msg)
    if values.pop(CHECKSUM) != _checksum(values):
        msg = "its contents do not match their checksum"
        raise ValueError(msg)
    return values


def _checksum(values: Mapping[str, Any]) -> str:
    """The checksum of *values*, whatever the white space around them is in the file."""
    return f"{zlib.crc32(json.dumps(values, sort_keys=True).encode()):08x}"
