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

    A message that begins like a refusal is none:

    >>> decoding_refusals(bytes.decode)(guarded(bytes(refusal("record 7 has 9 bytes"))))
    '\x00wallaroo:refused:record 7 has 9 bytes'
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

MARK = b"\0wallaroo:"
"""Begins a refusal, and a message that begins with it, which is marked as one; and what else a
connector has in the place of a message."""
_REFUSED, _MESSAGE = MARK + b"refused:", MARK + b"message:"
_SHOWN_BYTES = 100


class Refused(ValueError):
    """A source could not take a message."""


class Refusal(bytes):
    """What stands for a message that a source cannot take."""


def refusal(reason: str) -> Refusal:
    """What stands for a message that a source cannot take, for *reason*."""
    return Refusal(_REFUSED + reason.encode())


def guarded(payload: Any) -> Any:
    """*payload* such that it is taken for a refusal only if it is one; bytes, if it is data."""
    if isinstance(payload, Refusal) or not isinstance(payload, bytes | bytearray | memoryview):
        return payload
    data = bytes(payload)
    return _MESSAGE + data if data.startswith(MARK) else data


def all_guarded(payloads: list[bytes]) -> list[bytes]:
    """*payloads* as `guarded` returns each of them."""
    begin_so = any(map(bytes.startswith, payloads, itertools.repeat(MARK)))
    return list(map(guarded, payloads)) if begin_so else payloads


def unguarded(payload: Any) -> Any:
    """The payload of which `guarded` made *payload*."""
    is_guarded = isinstance(payload, bytes) and payload.startswith(_MESSAGE)
    return payload[len(_MESSAGE) :] if is_guarded else payload


def refusal_reason(payload: object) -> str | None:
    """Why a source could not take the message for which *payload* stands; None if it is one."""
    if isinstance(payload, bytes) and payload.startswith(_REFUSED):
        return payload[len(_REFUSED) :].decode("utf-8", "replace")
    return None


def decoding_refusals(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A decoder like *decode* that raises the reason of a refusal."""

    @functools.wraps(decode)
    def decode_message(payload: Any) -> Any:
        if isinstance(payload, bytes) and payload.startswith(MARK):
            if (reason := refusal_reason(payload)) is not None:
                raise Refused(reason)
            payload = unguarded(payload)
        return decode(payload)

    return decode_message


def beginning(data: bytes) -> str:
    """The first bytes of *data*, as a reason shows them.

    Example:
        >>> beginning(b"x" * 200)[-8:], beginning(b"ab")
        ("xxxxxx'…", "b'ab'")
    """
    return repr(data[:_SHOWN_BYTES]) + ("…" if len(data) > _SHOWN_BYTES else "")
