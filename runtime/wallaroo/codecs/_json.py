"""JSON, with or without the header of a schema registry."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, overload

from wallaroo.api.functions import Decoder, Encoder, LengthFormat
from wallaroo.codecs._confluent import SchemaText, Subject, named_schema, without_header
from wallaroo.codecs._construction import (
    HEADER_LENGTH,
    LENGTH_FMT,
    TEXT,
    Result,
    TextFraming,
    made_decoder,
    made_encoder,
    name_of_type,
    without_mark,
)
from wallaroo.codecs._defaults import with_defaults
from wallaroo.codecs._registry import SchemaRegistry
from wallaroo.codecs._types import check_type, from_plain, is_model, to_plain, validating
from wallaroo.system.packages import required
from wallaroo.user_code.callers import one_call

_MAYBE_OUT_OF_RANGE = re.compile(rb"\d[eE]\+?\d{3}|\d{309}")
"""What a number has that no float is large enough for."""


@overload
def json_decoder(
    type: type[Result],
    *,
    strict: bool = True,
    registry: SchemaRegistry | None = None,
    header_length: int = HEADER_LENGTH,
    length_fmt: LengthFormat = LENGTH_FMT,
    repeatable: bool = False,
) -> Decoder[Result]: ...


@overload
def json_decoder(
    type: Any = Any,
    *,
    strict: bool = True,
    registry: SchemaRegistry | None = None,
    header_length: int = HEADER_LENGTH,
    length_fmt: LengthFormat = LENGTH_FMT,
    repeatable: bool = False,
) -> Decoder[Any]: ...


def json_decoder(
    type: Any = Any,  # noqa: A002  (as in msgspec)
    *,
    strict: bool = True,
    registry: SchemaRegistry | None = None,
    header_length: int = HEADER_LENGTH,
    length_fmt: LengthFormat = LENGTH_FMT,
    repeatable: bool = False,
) -> Decoder[Any]:
    """Make a decoder of JSON. A message that does not fit the type becomes a dead letter.

    Args:
        type: Type of the messages: a dataclass, TypedDict, NamedTuple, `msgspec.Struct`, pydantic
            model, or a type such as `list[int]`. By default anything, as plain objects. Unknown
            fields are ignored.
        strict: Whether a text is no number: if False, `"1"` is accepted as 1. Pydantic models
            decide for themselves.
        registry: Registry whose header precedes each message; None for JSON alone.
        header_length: Length of the header before each payload, in bytes, in sources of frames.
        length_fmt: Layout of that header, as for `wallaroo.decoder`.
        repeatable: Promises what it does for `wallaroo.decoder`: code of the type, such as
            `__post_init__` or a validator, keeps to it, and key extractors do not change messages.

    Raises:
        TypeError: The type cannot be decoded.
        ModuleNotFoundError: msgspec is not installed.

    Example:
        >>> json_decoder()(b'{"symbol": "ABC", "price": 1.5}')
        {'symbol': 'ABC', 'price': 1.5}
        >>> json_decoder(list[int])(b'[1, 2, "x"]')
        Traceback (most recent call last):
        msgspec.ValidationError: Expected `int`, got `str` - at `$[2]`
    """
    msgspec = required("msgspec", "json_decoder")
    if is_model(type):
        decode = _of_model(type)
    else:
        check_type(type, "json_decoder")
        decode = msgspec.json.Decoder(type, strict=strict, dec_hook=from_plain).decode
        decode = with_defaults(type, decode, "json_decoder")
    decode = without_mark(decode)
    if registry is not None:
        decode = without_header(decode, registry, "JSON")
    name = f"json_decoder({name_of_type(type)})"
    return made_decoder(name, decode, header_length, length_fmt, repeatable=repeatable)


@one_call
def _of_model(kind: Any) -> Callable[[bytes], Any]:
    """Decodes the pydantic model *kind*; pydantic makes infinity of numbers out of range."""
    import msgspec

    decode = validating(kind, kind.model_validate_json)

    def decode_in_range(payload: bytes) -> Any:
        if _MAYBE_OUT_OF_RANGE.search(payload):
            msgspec.json.decode(payload)
        return decode(payload)

    return decode_in_range


def json_encoder(
    *,
    framing: TextFraming = "none",
    registry: SchemaRegistry | None = None,
    subject: str | None = None,
    schema: SchemaText | None = None,
    register: bool = False,
) -> Encoder[Any, bytes]:
    r"""Make an encoder to JSON, of plain objects and of everything that `json_decoder` makes.

    Args:
        framing: `"lines"` to end each output with a line feed, `"frames"` to precede it with its
            length in four bytes. Sinks that separate outputs themselves, such as topics of Kafka,
            need `"none"`.
        registry: Registry whose header is to precede each output; None for JSON alone.
        subject: Subject of the outputs in the registry.
        schema: JSON Schema of the outputs, which the subject must have, as a dictionary, as text or
            as the path of a file; None for the newest one of the subject. Outputs are not checked
            against it.
        register: Whether to register the schema if the subject does not have it.

    Raises:
        WallarooParameterError: The arguments do not belong together.
        ModuleNotFoundError: msgspec is not installed.

    Example:
        >>> json_encoder(framing="lines")({"symbol": "ABC", "price": 1.5})
        b'{"symbol":"ABC","price":1.5}\n'
    """
    msgspec = required("msgspec", "json_encoder")
    encode = msgspec.json.Encoder(enc_hook=to_plain).encode
    named = Subject.of("json_encoder", "JSON", registry, subject, schema, register=register)
    if named is not None:
        encode = named_schema(encode, named)
    return made_encoder("json_encoder()", encode, framing, TEXT)
