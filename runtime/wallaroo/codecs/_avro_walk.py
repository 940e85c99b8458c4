"""A walk over a value in Avro's binary encoding that makes nothing of it.

It finds the field in which a value is damaged. Of schemas that let a few bytes describe a value of
any size (lists of nothing, and records within themselves), it finds whether a value is too large
before it is decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wallaroo.codecs._avro_exact import DECIMAL, read_decimal

Parsed = Any
"""A schema as fastavro has parsed it."""
MAX_DEPTH = 100
"""Records within themselves; libraries for other formats have limits of this size, too."""
_MAX_VARINT = 10
"""Bytes of the longest number."""
_FIXED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_NUMBERS = {"int", "long"}
_TEXTS = {"bytes", "string"}
RECORDS = {"record", "error"}
_DEFINED = ("record", "error", "array", "map", "fixed", "enum")


class Damaged(ValueError):
    """A value is not one of its schema; the message says where."""


class Walk:
    """Walks over values of one schema.

    Args:
        schema: The schema, parsed.
        named: Named types that it refers to.
    """

    def __init__(self, schema: Parsed, named: dict[str, Any]) -> None:
        self._schema, self._named = schema, dict(named)
        self._recursive = self._hollow = False
        self._least(schema, ())

    @property
    def needed(self) -> bool:
        """Whether values must be walked over before they are decoded."""
        return self._recursive or self._hollow

    def check(self, data: bytes, start: int = 0) -> None:
        """Walk over the value in *data* from *start* on, which has to end with it.

        Raises:
            Damaged: It is not a value of the schema, or too large.
        """
        end = _Walker(self._named, data).value(self._schema, start, "$", 0)
        if end != len(data):
            msg = f"{len(data) - end} bytes are left after the value"
            raise _damaged(msg, "$", end)

    def _least(self, schema: Parsed, inside: tuple[str, ...]) -> int:
        """The least bytes that a value takes; notes what values have to be checked for."""
        schema = resolved(schema, self._named)
        if isinstance(schema, str):
            return _FIXED_SIZES.get(schema, 1)
        if isinstance(schema, list):
            return 1 + min((self._least(branch, inside) for branch in schema), default=0)
        kind, name = schema["type"], schema.get("name", "")
        if name:
            self._named.setdefault(name, schema)
        if kind in RECORDS:
            if name in inside:
                self._recursive = True
                return 1
            return sum([self._least(field["type"], (*inside, name)) for field in schema["fields"]])
        if kind == "array":
            if not self._least(schema["items"], inside):
                self._hollow = True
        elif kind == "map":
            self._least(schema["values"], inside)
        return int(schema["size"]) if kind == "fixed" else 1


class _Walker:
    """One walk.

    Args:
        named: Named types.
        data: What is walked over.
    """

    def __init__(self, named: dict[str, Any], data: bytes) -> None:
        self._named, self._data = named, data
        self._items = len(data)
        """Items of lists that may still come: more than bytes are no message, but an attack."""

    def value(self, schema: Parsed, at: int, path: str, depth: int) -> int:
        """Where the value of *schema* at *at* ends.

        Raises:
            Damaged: There is none.
        """
        schema = resolved(schema, self._named)
        if isinstance(schema, str):
            return self._plain(schema, at, path)
        if isinstance(schema, list):
            branch, at = self._index(len(schema), "branches", at, path)
            return self.value(schema[branch], at, path, depth)
        kind = schema["type"]
        if kind in RECORDS:
            return self._record(schema, at, path, depth)
        if kind in {"fixed", "bytes"}:
            return self._opaque(schema, at, path)
        if kind == "enum":
            return self._index(len(schema["symbols"]), "symbols", at, path)[1]
        return self._blocks(schema, at, path, depth)

    def _record(self, schema: Parsed, at: int, path: str, depth: int) -> int:
        if depth == MAX_DEPTH:
            msg = f"there are more than {MAX_DEPTH} records within each other"
            raise _damaged(msg, f"{path[:100]}…", at)
        for field in schema["fields"]:
            at = self.value(field["type"], at, f"{path}.{field['name']}", depth + 1)
        return at

    def _blocks(self, schema: Parsed, at: int, path: str, depth: int) -> int:
        """Where the list or map ends, which consists of blocks with their numbers of items."""
        first, start = 0, at
        while True:
            count, at = self._number(at, path)
            if not count:
                return at
            if count < 0:  # the block's size follows
                count, (_, at) = -count, self._number(at, path)
            self._items -= count
            if self._items < 0:
                size = len(self._data)
                msg = f"there are more items than the {size} bytes"
                raise _damaged(msg, path, start)
            for number in range(first, first + count):
                if schema["type"] == "array":
                    at = self.value(schema["items"], at, f"{path}[{number}]", depth)
                    continue
                _, key = self._number(at, path)
                at = self._plain("string", at, f"{path}[…]")
                name = self._data[key:at][:40].decode(errors="replace")
                at = self.value(schema["values"], at, f"{path}[{name!r}]", depth)
            first += count

    def _plain(self, kind: str, at: int, path: str) -> int:
        if kind in _NUMBERS:
            return self._number(at, path)[1]
        if kind not in _TEXTS:
            return self._bytes(_FIXED_SIZES[kind], at, path)
        size, at = self._number(at, path)
        end = self._bytes(size, at, path)
        if kind == "string":
            try:
                self._data[at:end].decode()
            except UnicodeDecodeError as error:
                msg = f"the text is not UTF-8: {error}"
                raise _damaged(msg, path, at) from None
        return end

    def _opaque(self, schema: Parsed, at: int, path: str) -> int:
        size, at = (schema["size"], at) if schema["type"] == "fixed" else self._number(at, path)
        end = self._bytes(size, at, path)
        if schema.get("logicalType") == DECIMAL:
            try:
                read_decimal(self._data[at:end], schema)
            except ValueError as error:
                raise _damaged(str(error), path, at) from None
        return end

    def _bytes(self, size: int, at: int, path: str) -> int:
        left = len(self._data) - at
        if not 0 <= size <= left:
            msg = f"expected {size} bytes, and {left} are left"
            raise _damaged(msg, path, at)
        return at + size

    def _index(self, count: int, what: str, at: int, path: str) -> tuple[int, int]:
        number, end = self._number(at, path)
        if not 0 <= number < count:
            msg = f"number {number} of {count} {what}"
            raise _damaged(msg, path, at)
        return number, end

    def _number(self, at: int, path: str) -> tuple[int, int]:
        number = 0
        for place, byte in enumerate(self._data[at : at + _MAX_VARINT]):
            number |= (byte & 0x7F) << 7 * place
            if not byte & 0x80:
                return (number >> 1) ^ -(number & 1), at + place + 1
        ended = len(self._data) - at < _MAX_VARINT
        raise _damaged("the message is truncated" if ended else "no number", path, at)


def resolved(schema: Parsed, named: Mapping[str, Any]) -> Parsed:
    """A union, the name of a primitive type, or the definition of a decimal or another type."""
    while True:
        if isinstance(schema, str):
            if schema not in named:
                return schema
            schema = named[schema]
        elif isinstance(schema, dict) and not (
            schema["type"] in _DEFINED or schema.get("logicalType") == DECIMAL
        ):
            schema = schema["type"]
        else:
            return schema


def _damaged(what: str, path: str, at: int) -> Damaged:
    return Damaged(f"{what} - at `{path}` (byte {at})")
