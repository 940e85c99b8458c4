"""Confluent's wire format: a zero byte and the number of a schema before each message."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from wallaroo.codecs._registry import Schema, SchemaRegistry
from wallaroo.errors import WallarooParameterError, reason_of
from wallaroo.user_code.callers import one_call

SchemaText = Mapping[str, Any] | list[Any] | str | os.PathLike[str]
"""A schema: as an object, as its text, or the path of a file that has it."""
Made = TypeVar("Made")
"""What is made of a schema."""
_HEADER = struct.Struct(">bI")
_KEPT = 1_000
"""Schemas of writers that a decoder keeps."""


class NoHeader(ValueError):
    """A message does not begin as the registry's clients write it."""


def text_of(schema: SchemaText, codec: str) -> str:
    """Return the text of *schema*.

    Raises:
        WallarooParameterError: It is a file that cannot be read.
        TypeError: It is something else.
    """
    if isinstance(schema, str):
        return schema
    if isinstance(schema, os.PathLike):
        try:
            return Path(schema).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            msg = f"{codec}: the schema in {os.fspath(schema)!r} cannot be read: {reason_of(error)}"
            raise WallarooParameterError(msg) from None
    if isinstance(schema, (Mapping, list)):
        return json.dumps(schema)
    msg = f"{codec}: the schema is {schema!r}; expected a dictionary, its text or a Path"
    raise TypeError(msg)


def split(payload: bytes) -> tuple[int, int]:
    r"""Return the number of the schema of *payload*, and where the message begins.

    Raises:
        NoHeader: It does not begin with a header.

    Example:
        >>> split(b"\x00\x00\x00\x00\x07message")
        (7, 5)
    """
    if len(payload) < _HEADER.size or payload[0]:
        msg = (
            f"the message begins with {payload[:5]!r}; expected a zero byte and the number of a "
            "schema in four bytes, as clients of a schema registry write them"
        )
        raise NoHeader(msg)
    return _HEADER.unpack_from(payload)[1], _HEADER.size


def header(schema: int) -> bytes:
    """Return what precedes a message with the number *schema*."""
    return _HEADER.pack(0, schema)


@one_call
def by_schema(
    registry: SchemaRegistry, kind: str, make: Callable[[Schema], Made]
) -> Callable[[int], Made]:
    """Return a function from the number of a schema to what *make* makes of it, which is kept.

    It raises `NoHeader` for a schema that is not of type *kind*.
    """
    kept: dict[int, Made] = {}

    def of(number: int) -> Made:
        if number in kept:
            return kept[number]
        schema = registry.schema(number)
        if schema.kind != kind:
            msg = f"the message has the schema {number}, which is of type {schema.kind}, not {kind}"
            raise NoHeader(msg)
        if len(kept) >= _KEPT:
            kept.clear()
        made = kept[number] = make(schema)
        return made

    return of


@one_call
def without_header(
    decode: Callable[[bytes], Any], registry: SchemaRegistry, kind: str
) -> Callable[[bytes], Any]:
    """Wrap *decode*, which needs no schema, to take the header off and check it."""
    check = by_schema(registry, kind, lambda _: None)

    def decode_after_header(payload: bytes) -> Any:
        schema, start = split(payload)
        check(schema)
        return decode(payload[start:])

    return decode_after_header


@dataclass
class Subject:
    """Where an encoder finds its schema: the newest of a subject, or one that the subject has."""

    codec: str
    kind: str
    """Type of the schema: `AVRO`, `JSON` or `PROTOBUF`."""
    registry: SchemaRegistry
    subject: str
    text: str | None
    """Text of the schema; None for the newest one."""
    register: bool
    _found: Schema | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        codec: str,
        kind: str,
        registry: SchemaRegistry | None,
        subject: str | None,
        schema: SchemaText | None,
        *,
        register: bool,
    ) -> Subject | None:
        """The subject that arguments of an encoder describe; None without a registry.

        Raises:
            WallarooParameterError: They do not belong together.
        """
        if registry is None:
            if subject is not None or register:
                msg = f"{codec}: a subject belongs to a registry; pass registry=SchemaRegistry(url)"
                raise WallarooParameterError(msg)
            return None
        if not isinstance(registry, SchemaRegistry):
            msg = f"{codec}: registry is {registry!r}; expected a SchemaRegistry(url)"
            raise TypeError(msg)
        if not (isinstance(subject, str) and subject):
            msg = (
                f"{codec}: subject is {subject!r}; with a registry, pass the subject of the "
                "outputs, which is 'TOPIC-value' by convention"
            )
            raise WallarooParameterError(msg)
        if register and schema is None:
            msg = f"{codec}: register=True requires the schema to register; pass schema="
            raise WallarooParameterError(msg)
        text = None if schema is None else text_of(schema, codec)
        return cls(codec, kind, registry, subject, text, register)

    def schema(self) -> Schema:
        """The schema, which is asked for once; waits for the registry if it does not answer."""
        if self._found is None:
            self._found = self.registry.of_subject(
                self.subject, self.kind, self.text, register=self.register
            )
        return self._found


@one_call
def named_schema(encode: Callable[[Any], bytes], subject: Subject) -> Callable[[Any], bytes]:
    """Wrap *encode*, which needs no schema, to put the header on."""

    def encode_after_header(output: Any) -> bytes:
        return header(subject.schema().id) + encode(output)

    return encode_after_header
