r"""Refusals: what the journal has in the place of a message that a source cannot take.

Like any message that cannot be decoded, a refusal becomes a dead letter exactly once, by the policy
of its source, and the source reads on.

Example:
    >>> decoding_refusals(bytes.decode)(refusal("record 7 has 9 bytes"))
    Traceback (most recent call last):
        ...
    wallaroo.wire.refusals.Refused: record 7 has 9 bytes
    >>> decoding_refusals(bytes.decode)(b"hello")
    'hello'
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_MARK = b"\0wallaroo:refused\0\xc3\x9f\x1b\x02\xe7\x84\x55\xaa"
"""Begins a refusal. A sender who begins a message with it only gets a dead letter."""
_SHOWN_BYTES = 100


class Refused(ValueError):
    """A source could not take a message."""


def refusal(reason: str) -> bytes:
    """What stands for a message that a source cannot take, for *reason*."""
    return _MARK + reason.encode()


def refusal_reason(payload: object) -> str | None:
    """Why a source could not take the message for which *payload* stands; None if it is one."""
    if isinstance(payload, bytes) and payload.startswith(_MARK):
        return payload[len(_MARK) :].decode("utf-8", "replace")
    return None


def decoding_refusals(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A decoder like *decode* that raises the reason of a refusal."""

    @functools.wraps(decode)
    def decode_message(payload: Any) -> Any:
        if (reason := refusal_reason(payload)) is not None:
            raise Refused(reason)
        return decode(payload)

    return decode_message


def beginning(data: bytes) -> str:
    """The first bytes of *data*, as a reason shows them.

    Example:
        >>> beginning(b"x" * 200)[-8:], beginning(b"ab")
        ("xxxxxx'…", "b'ab'")
    """
    return repr(data[:_SHOWN_BYTES]) + ("…" if len(data) > _SHOWN_BYTES else "")
