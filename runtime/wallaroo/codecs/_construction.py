"""Construction of all codecs: objects like those of the decorators, with name and place."""

from __future__ import annotations

import struct
import types
from codecs import BOM_UTF8
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from wallaroo.api.functions import Decoder, Encoder, LengthFormat
from wallaroo.api.places import calling_place
from wallaroo.errors import WallarooParameterError
from wallaroo.user_code.callers import one_call

Result = TypeVar("Result")
"""Type of the messages of a decoder."""
BinaryFraming = Literal["none", "frames"]
"""What is added to an encoded output: nothing, or its length before it (4 bytes, big-endian)."""
TextFraming = Literal["none", "lines", "frames"]
"""The same, or a line feed after it."""
BINARY: tuple[str, ...] = ("none", "frames")
TEXT: tuple[str, ...] = ("none", "lines", "frames")
HEADER_LENGTH = 4
"""Bytes of the header before each payload, in sources of frames."""
LENGTH_FMT: LengthFormat = ">I"
"""Layout of that header."""


def made_decoder(
    name: str,
    function: Callable[[bytes], Any],
    header_length: int,
    length_fmt: LengthFormat,
    *,
    repeatable: bool = False,
) -> Decoder[Any]:
    """Make a decoder that is known as *name*, from the line of user code that asked for it."""
    decoder: Decoder[Any] = Decoder(function, header_length, length_fmt, repeatable=repeatable)
    _label(decoder, name)
    return decoder


def made_encoder(
    name: str, function: Callable[[Any], bytes], framing: str, accepted: tuple[str, ...]
) -> Encoder[Any, bytes]:
    """Make an encoder that is known as *name*, from the line of user code that asked for it.

    Raises:
        WallarooParameterError: The *framing* is not one of *accepted*.
    """
    if framing not in accepted:
        expected = " or ".join(map(repr, accepted))
        msg = f"{name}: framing is {framing!r}; expected {expected}"
        raise WallarooParameterError(msg)
    encoder: Encoder[Any, bytes] = Encoder(framed(function, framing))
    _label(encoder, name)
    return encoder


@one_call
def without_mark(decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Wrap *decode* to take off the byte order mark that some editors begin files with.

    Only what fails is looked at: no message of JSON begins with a mark.
    """

    def decode_after_mark(payload: bytes) -> Any:
        try:
            return decode(payload)
        except Exception:
            if payload[: len(BOM_UTF8)] != BOM_UTF8:
                raise
        return decode(payload[len(BOM_UTF8) :])

    return decode_after_mark


@one_call
def framed(function: Callable[[Any], bytes], framing: str) -> Callable[[Any], bytes]:
    """Wrap *function* to add what *framing* says."""
    if framing == "lines":
        return lambda output: function(output) + b"\n"
    if framing == "frames":
        header = struct.Struct(">I").pack

        def encode(output: Any) -> bytes:
            encoded = function(output)
            return header(len(encoded)) + encoded

        return encode
    return function


def _label(made: Decoder[Any] | Encoder[Any, bytes], name: str) -> None:
    vars(made).update(__name__=name, __qualname__=name, __doc__=f"Made by {name}.")
    made.place = calling_place()


def name_of_type(kind: Any) -> str:
    """Return *kind* as it is written in Python; nothing for any.

    Example:
        >>> name_of_type(int), name_of_type(list[int]), name_of_type(Any)
        ('int', 'list[int]', '')
    """
    if kind is Any:
        return ""
    plain = isinstance(kind, type) and not isinstance(kind, types.GenericAlias)
    return kind.__name__ if plain else repr(kind)
