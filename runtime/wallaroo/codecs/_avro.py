"""Avro, with or without the header of a schema registry."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterable
from typing import Any, overload

from wallaroo.api.functions import Decoder, Encoder, LengthFormat
from wallaroo.codecs._avro_defaults import convert_defaults
from wallaroo.codecs._avro_exact import Misfit, places_of, register, to_read, to_write
from wallaroo.codecs._avro_walk import Walk
from wallaroo.codecs._confluent import SchemaText, Subject, by_schema, header, split, text_of
from wallaroo.codecs._construction import (
    BINARY,
    HEADER_LENGTH,
    LENGTH_FMT,
    BinaryFraming,
    Result,
    made_decoder,
    made_encoder,
    name_of_type,
)
from wallaroo.codecs._registry import Schema, SchemaRegistry
from wallaroo.codecs._types import converting, to_plain
from wallaroo.errors import WallarooParameterError
from wallaroo.system.packages import required
from wallaroo.user_code.callers import one_call


@overload
def avro_decoder(
    type: type[Result],
    *,
    schema: SchemaText | None = None,
    writer_schema: SchemaText | None = None,
    registry: SchemaRegistry | None = None,
    header_length: int = HEADER_LENGTH,
    length_fmt: LengthFormat = LENGTH_FMT,
) -> Decoder[Result]: ...


@overload
def avro_decoder(
    type: Any = Any,
    *,
    schema: SchemaText | None = None,
    writer_schema: SchemaText | None = None,
    registry: SchemaRegistry | None = None,
    header_length: int = HEADER_LENGTH,
    length_fmt: LengthFormat = LENGTH_FMT,
) -> Decoder[Any]: ...


def avro_decoder(
    type: Any = Any,  # noqa: A002  (as in msgspec)
    *,
    schema: SchemaText | None = None,
    writer_schema: SchemaText | None = None,
    registry: SchemaRegistry | None = None,
    header_length: int = HEADER_LENGTH,
    length_fmt: LengthFormat = LENGTH_FMT,
) -> Decoder[Any]:
    r"""Make a decoder of single values in Avro's binary encoding.

    Args:
        type: Type of the messages, as for `json_decoder`; by default what Avro has: dictionaries
            for records, `datetime` and `Decimal` for logical types.
        schema: The reader's schema: what messages look like, whichever version they were written
            with. As a dictionary, as text, or as the path of a file. None for the writer's.
        writer_schema: The schema that messages were written with; None for the registry's, or
            *schema* if there is no registry.
        registry: Registry whose header precedes each message.
        header_length: Length of the header before each payload, in bytes, in sources of frames.
        length_fmt: Layout of that header, as for `wallaroo.decoder`.

    Raises:
        TypeError: The type cannot be decoded.
        WallarooParameterError: The writer's schema is missing or given twice, or a schema is
                invalid.
        ModuleNotFoundError: fastavro or msgspec is not installed.

    Example:
        >>> fields = [{"name": "symbol", "type": "string"}, {"name": "price", "type": "double"}]
        >>> trade = {"type": "record", "name": "Trade", "fields": fields}
        >>> encode, decode = avro_encoder(trade), avro_decoder(schema=trade)
        >>> encode({"symbol": "ABC", "price": 1.5})
        b'\x06ABC\x00\x00\x00\x00\x00\x00\xf8?'
        >>> decode(encode({"symbol": "ABC", "price": 1.5}))
        {'symbol': 'ABC', 'price': 1.5}
    """
    required("fastavro", "avro_decoder")
    convert = converting(type, "avro_decoder", strict=True)
    reader = None if schema is None else _Format(text_of(schema, "avro_decoder"), "avro_decoder")
    name = f"avro_decoder({name_of_type(type)})"
    if registry is not None:
        if writer_schema is not None:
            msg = "avro_decoder: the registry has the writer's schema; leave out writer_schema"
            raise WallarooParameterError(msg)
        decode = _with_registry(registry, reader, convert)
        return made_decoder(name, decode, header_length, length_fmt)
    if writer_schema is not None:
        writer = _Format(text_of(writer_schema, "avro_decoder"), "avro_decoder")
    elif reader is not None:
        writer, reader = reader, None
    else:
        msg = "avro_decoder: no schema; pass schema=, or registry=SchemaRegistry(url)"
        raise WallarooParameterError(msg)
    decode = _without_registry(writer, reader, convert)
    return made_decoder(name, decode, header_length, length_fmt)


def avro_encoder(
    schema: SchemaText | None = None,
    *,
    framing: BinaryFraming = "none",
    registry: SchemaRegistry | None = None,
    subject: str | None = None,
    register: bool = False,
) -> Encoder[Any, bytes]:
    r"""Make an encoder to Avro's binary encoding, of dictionaries, dataclasses and other objects.

    Args:
        schema: The schema, as a dictionary, as text, or as the path of a file. With a registry, the
            subject must have it; None for the newest one of the subject when the first output is
            encoded.
        framing: `"frames"` to precede each output with its length in four bytes.
        registry: Registry whose header is to precede each output.
        subject: Subject of the outputs in the registry.
        register: Whether to register the schema if the subject does not have it.

    Raises:
        WallarooParameterError: The arguments do not belong together, or the schema is invalid.
        ModuleNotFoundError: fastavro or msgspec is not installed.

    Example:
        >>> avro_encoder({"type": "array", "items": "int"})([1, 2])
        b'\x04\x02\x04\x00'
    """
    required("fastavro", "avro_encoder")
    required("msgspec", "avro_encoder")
    fixed = None
    if schema is not None:
        fixed = _Format(text_of(schema, "avro_encoder"), "avro_encoder", exact=to_write)
    named = Subject.of("avro_encoder", "AVRO", registry, subject, schema, register=register)
    if fixed is None and named is None:
        msg = "avro_encoder: no schema; pass one, or registry=SchemaRegistry(url) and subject="
        raise WallarooParameterError(msg)
    encode = _encoding(fixed, named)
    return made_encoder("avro_encoder()", encode, framing, BINARY)


class _Format:
    """A schema that fastavro has parsed.

    Args:
        text: Its text.
        codec: Who asks for it, for messages.
        references: Texts of schemas that it refers to.
        exact: Makes a schema, as its JSON, one whose values are read or written exactly.

    Raises:
        WallarooParameterError: The text is not a schema.
    """

    def __init__(
        self,
        text: str,
        codec: str,
        references: tuple[str, ...] = (),
        exact: Callable[[Any], Any] = to_read,
    ) -> None:
        register()
        try:
            parts = [_loaded(part) for part in (*references, text)]
            self._declared, named = _parsed(parts)
            convert_defaults(self._declared, named)
            self.schema, named = _parsed(map(exact, parts))
            self.walk = Walk(self.schema, named)
            self.own_defaults = convert_defaults(self.schema, named)
            """Gives a value that was read copies of defaults that could be changed, if any."""
        except Exception as error:  # fastavro raises whatever an odd schema causes
            reason = str(error) or type(error).__name__
            msg = f"{codec}: the Avro schema {_short(text)} is invalid: {reason}"
            raise WallarooParameterError(msg) from None

    def read(self, payload: bytes, start: int, reader: _Format | None) -> Any:
        """Return the value in *payload* from *start* on.

        Raises:
            ValueError: It is not one of this schema, or not one that *reader* can have.
        """
        from fastavro import schemaless_reader

        if self.walk.needed:
            self.walk.check(payload, start)
        stream = io.BytesIO(payload)
        stream.seek(start)
        try:
            value = schemaless_reader(
                stream, self.schema, None if reader is None else reader.schema
            )
        except Exception as error:
            self.walk.check(payload, start)  # it says more about bytes that do not fit
            msg = f"the message does not fit the schema: {type(error).__name__}: {error}"
            raise ValueError(msg) from error
        if stream.tell() != len(payload):
            self.walk.check(payload, start)
        if reader is not None and reader.own_defaults is not None:
            reader.own_defaults(value)
        return value

    def write(self, output: Any) -> bytes:
        """Return *output* in Avro's encoding.

        Raises:
            ValueError: It does not fit.
        """
        if type(output) is dict:
            with contextlib.suppress(Exception):
                return self._written(output)
        plain = _plain(output)  # a dictionary may contain objects, too
        try:
            return self._written(plain)
        except Exception as error:
            reason = self._misfit(plain, error)
        msg = f"the output does not fit the schema: {reason}"
        raise ValueError(msg)

    def _written(self, plain: Any) -> bytes:
        from fastavro import schemaless_writer

        stream = io.BytesIO()
        schemaless_writer(stream, self.schema, plain)
        return stream.getvalue()

    def _misfit(self, plain: Any, error: Exception) -> str:
        from fastavro.validation import ValidationError, validate

        if isinstance(error, Misfit):
            return f"{error} - at {places_of(error.value, plain)}"
        try:
            validate(plain, self._declared)
        except ValidationError as found:
            return "; ".join(map(str, found.errors[:3]))
        except Exception:  # noqa: S110  (the first error says enough)
            pass
        return f"{type(error).__name__}: {error}"


def _parsed(parts: Iterable[Any]) -> tuple[Any, dict[str, Any]]:
    """The last of *parts*, which may refer to those before it, and the types that have names."""
    import fastavro

    named: dict[str, Any] = {}
    schemas = [fastavro.parse_schema(part, named_schemas=named) for part in parts]
    return schemas[-1], named


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"  # noqa: PLR2004


def _loaded(text: str) -> Any:
    """A schema from its text; the name of a primitive type may be without quotes."""
    try:
        return json.loads(text)
    except ValueError:
        if text.strip().isalpha():
            return text.strip()
        raise


@one_call
def _plain(output: Any) -> Any:
    """*output* without objects of classes that Avro does not have."""
    import datetime
    import decimal
    import uuid

    import msgspec

    kept = (
        bytes, bytearray, datetime.datetime, datetime.date, datetime.time, decimal.Decimal,
        uuid.UUID,
    )  # fmt: skip
    return msgspec.to_builtins(output, builtin_types=kept, enc_hook=to_plain)


@one_call
def _without_registry(
    writer: _Format, reader: _Format | None, convert: Callable[[Any], Any] | None
) -> Callable[[bytes], Any]:
    def decode(payload: bytes) -> Any:
        value = writer.read(payload, 0, reader)
        return value if convert is None else convert(value)

    return decode


@one_call
def _with_registry(
    registry: SchemaRegistry, reader: _Format | None, convert: Callable[[Any], Any] | None
) -> Callable[[bytes], Any]:
    writer_of = by_schema(registry, "AVRO", lambda schema: _format_of(schema, to_read))

    def decode(payload: bytes) -> Any:
        number, start = split(payload)
        value = writer_of(number).read(payload, start, reader)
        return value if convert is None else convert(value)

    return decode


def _format_of(schema: Schema, exact: Callable[[Any], Any]) -> _Format:
    return _Format(schema.text, f"schema {schema.id} of the registry", schema.references, exact)


@one_call
def _encoding(fixed: _Format | None, subject: Subject | None) -> Callable[[Any], bytes]:
    if subject is None:
        assert fixed is not None
        return fixed.write
    named, newest = subject, list[_Format]()

    def encode(output: Any) -> bytes:
        schema = named.schema()
        if fixed is not None:
            return header(schema.id) + fixed.write(output)
        if not newest:
            newest.append(_format_of(schema, to_write))
        return header(schema.id) + newest[0].write(output)

    return encode
