"""Protobuf, with or without the header of a schema registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from wallaroo.api.functions import Decoder, Encoder, LengthFormat
from wallaroo.codecs._confluent import (
    NoHeader,
    SchemaText,
    Subject,
    check_kind,
    header,
    split,
)
from wallaroo.codecs._made import (
    BINARY,
    HEADER_LENGTH,
    LENGTH_FMT,
    BinaryFraming,
    made_decoder,
    made_encoder,
    required,
)
from wallaroo.codecs._proto_text import message_places
from wallaroo.codecs._proto_wire import place_of_damage, read_indexes, written_indexes
from wallaroo.codecs._registry import SchemaRegistry
from wallaroo.model.callers import one_call

Message = TypeVar("Message")
"""Class of the messages, which protoc has generated."""
_KEPT = 1_000
"""Schemas of writers that a decoder keeps."""


def protobuf_decoder(
    type: type[Message],  # noqa: A002  (as in the other codecs)
    *,
    registry: SchemaRegistry | None = None,
    header_length: int = HEADER_LENGTH,
    length_fmt: LengthFormat = LENGTH_FMT,
) -> Decoder[Message]:
    r"""Make a decoder of a class of messages that protoc has generated.

    Args:
        type: The class. Fields that it does not know are kept, as Protobuf does.
        registry: Registry whose header precedes each message: it tells whether a message is of this
            class. None for messages alone.
        header_length: Length of the header before each payload, in bytes, in sources of frames.
        length_fmt: Layout of that header, as for `wallaroo.decoder`.

    Raises:
        TypeError: It is no such class.

    Example:
        >>> from google.protobuf.timestamp_pb2 import Timestamp
        >>> protobuf_decoder(Timestamp)(b"\x08\x07").seconds
        7
    """
    _check_class(type, "protobuf_decoder")
    decode = _decoding(type) if registry is None else _with_registry(type, registry)
    return made_decoder(f"protobuf_decoder({type.__name__})", decode, header_length, length_fmt)


def protobuf_encoder(
    *,
    framing: BinaryFraming = "none",
    registry: SchemaRegistry | None = None,
    subject: str | None = None,
    schema: SchemaText | None = None,
    register: bool = False,
) -> Encoder[Any, bytes]:
    r"""Make an encoder of Protobuf's messages.

    Args:
        framing: `"frames"` to precede each output with its length in four bytes.
        registry: Registry whose header is to precede each output.
        subject: Subject of the outputs in the registry.
        schema: The .proto file, as text or as a path, which the subject must have; None for the
            newest one of the subject. It must declare the messages.
        register: Whether to register the schema if the subject does not have it.

    Raises:
        WallarooParameterError: The arguments do not belong together.

    Example:
        >>> from google.protobuf.timestamp_pb2 import Timestamp
        >>> protobuf_encoder()(Timestamp(seconds=7))
        b'\x08\x07'
    """
    named = Subject.of("protobuf_encoder", "PROTOBUF", registry, subject, schema, register=register)
    encode = _encoded if named is None else _encoding(named)
    return made_encoder("protobuf_encoder()", encode, framing, BINARY)


def _check_class(kind: Any, codec: str) -> None:
    message = required("google.protobuf.message", codec, "protobuf").Message
    if not (isinstance(kind, type) and issubclass(kind, message)):
        found = f"an object of class {type(kind).__name__}"
        found = f"the class {kind.__name__}" if isinstance(kind, type) else found
        msg = f"{codec}: {found} is no class of messages that protoc has generated"
        raise TypeError(msg)


@one_call
def _decoding(kind: Any) -> Callable[[bytes], Any]:
    from google.protobuf.message import DecodeError

    parse = kind.FromString

    def decode(payload: bytes) -> Any:
        try:
            return parse(payload)
        except DecodeError as error:
            where = place_of_damage(payload, kind.DESCRIPTOR)
            msg = f"the message is no {kind.DESCRIPTOR.full_name}: {where or error}"
            raise ValueError(msg) from None

    return decode


@one_call
def _with_registry(kind: Any, registry: SchemaRegistry) -> Callable[[bytes], Any]:
    decode, wanted = _decoding(kind), kind.DESCRIPTOR.full_name
    known: dict[int, dict[tuple[int, ...], str]] = {}

    def decode_after_header(payload: bytes) -> Any:
        number, start = split(payload)
        names = known.get(number)
        if names is None:
            schema = registry.schema(number)
            check_kind(schema, "PROTOBUF")
            if len(known) >= _KEPT:
                known.clear()
            places = message_places(schema.text)
            names = known[number] = {place: name for name, place in places.items()}
        indexes, start = read_indexes(payload, start)
        if (found := names.get(indexes)) != wanted:
            what = f"a {found}" if found else f"number {list(indexes)}, which the schema lacks,"
            msg = f"the message is {what} of the schema {number}, not a {wanted}"
            raise NoHeader(msg)
        return decode(payload[start:])

    return decode_after_header


@one_call
def _encoded(output: Any) -> bytes:
    try:
        serialize = output.SerializeToString
    except AttributeError:
        msg = (
            f"an object of class {type(output).__name__} is no message of Protobuf; expected an "
            "object of a class that protoc has generated"
        )
        raise TypeError(msg) from None
    encoded: bytes = serialize(deterministic=True)
    return encoded


@one_call
def _encoding(subject: Subject) -> Callable[[Any], bytes]:
    headers: dict[str, bytes] = {}

    def encode(output: Any) -> bytes:
        encoded = _encoded(output)
        name = output.DESCRIPTOR.full_name
        first = headers.get(name)
        if first is None:
            schema = subject.schema()
            place = message_places(schema.text).get(name)
            if place is None:
                msg = (
                    f"the schema {schema.id} of the subject {subject.subject!r} declares no "
                    f"message {name}"
                )
                raise ValueError(msg)
            first = headers[name] = header(schema.id) + written_indexes(place)
        return first + encoded

    return encode
