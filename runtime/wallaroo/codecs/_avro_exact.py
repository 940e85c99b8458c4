"""Avro's values, read and written exactly or refused.

Of itself, fastavro rounds decimals beyond their precision, makes infinity of what a float is too
small for, writes ints of any size, and takes a time without a time zone as local time of the
machine. What is done here instead belongs to custom logical types of fastavro, in the place of
Avro's, so that it affects no other user of fastavro in the process.

Source: https://fastavro.readthedocs.io/en/latest/logical_types.html#custom-logical-types
"""

from __future__ import annotations

import datetime
import decimal
import numbers
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

DECIMAL = "wallaroo-decimal"
_EXACT = "wallaroo-exact"
_INSTANTS = ("timestamp-millis", "timestamp-micros")
_WRITTEN = {"decimal": DECIMAL, **{name: f"wallaroo-{name}" for name in _INSTANTS}}
"""The logical types that take the place of Avro's."""
_READ = {"decimal": DECIMAL}
_BITS_OF_DIGIT = 3.3219280948873626
_MOST_BITS = 256
"""Bits of an integer that an error shows."""
_SHOWN = 3
"""Places that an error shows."""


class Misfit(ValueError):
    """A value is not one of its type.

    Args:
        value: The value.
        problem: What is wrong with it.
    """

    def __init__(self, value: Any, problem: str) -> None:
        long = isinstance(value, int) and value.bit_length() > _MOST_BITS
        super().__init__(f"{'the integer' if long else repr(value)} {problem}")
        self.value = value


def to_read(schema: Any) -> Any:
    """Return *schema*, as its JSON, with the logical types that are read here.

    Example:
        >>> to_read(["null", {"type": "bytes", "logicalType": "decimal", "precision": 4}])
        ['null', {'type': 'bytes', 'logicalType': 'wallaroo-decimal', 'precision': 4}]
    """
    return _marked(schema, _READ, frozenset())


def to_write(schema: Any) -> Any:
    """Return *schema*, as its JSON, with the logical types that are written here."""
    return _marked(schema, _WRITTEN, frozenset({"int", "float"}))


def places_of(value: Any, output: Any) -> str:
    """Return where *output* has the very object *value*.

    Example:
        >>> price = decimal.Decimal("1.50")
        >>> places_of(price, {"prices": [price, price]})
        '`$.prices[0]` and `$.prices[1]`'
    """
    return " and ".join(f"`{path}`" for path in islice(_paths(value, output, "$"), _SHOWN))


def read_decimal(encoded: bytes, schema: Any, _reader: Any = None) -> decimal.Decimal:
    """Return the decimal *encoded* with *schema*.

    Raises:
        ValueError: It has more digits than the schema's precision.
    """
    unscaled, precision = int.from_bytes(encoded, "big", signed=True), schema["precision"]
    # the size first: the time of a conversion grows with its square
    if unscaled.bit_length() <= precision * _BITS_OF_DIGIT + 1:
        number = decimal.Decimal(unscaled)
        if number.adjusted() < precision:
            return number.scaleb(-schema.get("scale", 0), _context(precision))
    msg = f"a decimal of {len(encoded)} bytes has more digits than its precision, {precision}"
    raise ValueError(msg)


def register() -> None:
    """Make the logical types known to fastavro."""
    from fastavro.read import LOGICAL_READERS
    from fastavro.write import LOGICAL_WRITERS

    for kind in ("bytes", "fixed"):
        LOGICAL_READERS[f"{kind}-{DECIMAL}"] = read_decimal
        write = LOGICAL_WRITERS[f"{kind}-decimal"]
        LOGICAL_WRITERS[f"{kind}-{DECIMAL}"] = _checked(_problem_of_decimal, write)
    for name in _INSTANTS:
        LOGICAL_READERS[f"long-{_WRITTEN[name]}"] = LOGICAL_READERS[f"long-{name}"]
        write = LOGICAL_WRITERS[f"long-{name}"]
        LOGICAL_WRITERS[f"long-{_WRITTEN[name]}"] = _checked(_problem_of_instant, write)
    LOGICAL_WRITERS[f"int-{_EXACT}"] = _checked(_problem_of_int)
    LOGICAL_WRITERS[f"float-{_EXACT}"] = _checked(_problem_of_float)


def _checked(
    problem_of: Callable[[Any, Any], str | None], write: Callable[[Any, Any], Any] | None = None
) -> Callable[[Any, Any], Any]:
    """What raises a `Misfit` for the values that have a problem, and *write* for all others."""

    def call(value: Any, schema: Any) -> Any:
        if (problem := problem_of(value, schema)) is not None:
            raise Misfit(value, problem)
        return value if write is None else write(value, schema)

    return call


def _problem_of_decimal(value: Any, schema: Any) -> str | None:
    if not isinstance(value, decimal.Decimal):
        return None
    if not value.is_finite():
        return "is not a finite number"
    scale, precision = schema.get("scale", 0), schema["precision"]
    _, digits, exponent = value.as_tuple()
    if (places := -int(exponent)) > scale:
        return f"has {places} decimal places; the scale is {scale}"
    if value and (count := len(digits) + scale - places) > precision:
        at_scale = f" at scale {scale}" if scale else ""
        return f"has {count} digits{at_scale}; the precision is {precision}"
    return None


def _problem_of_instant(value: Any, _schema: Any) -> str | None:
    naive = isinstance(value, datetime.datetime) and value.utcoffset() is None
    return "has no time zone (tzinfo)" if naive else None


def _problem_of_int(value: Any, _schema: Any) -> str | None:
    if not isinstance(value, numbers.Integral) or -(2**31) <= int(value) < 2**31:
        return None  # of what is no number at all, fastavro tells
    return "does not fit an int, of 32 bits"


def _problem_of_float(value: Any, _schema: Any) -> str | None:
    try:
        struct.pack("<f", value)
    except OverflowError:
        return "does not fit a float, of 32 bits"
    except struct.error:
        pass
    return None


@lru_cache
def _context(precision: int) -> decimal.Context:
    return decimal.Context(prec=precision)


def _marked(schema: Any, logical: Mapping[str, str], exact: frozenset[str]) -> Any:
    if isinstance(schema, list):
        kinds = [part.get("type") if isinstance(part, dict) else part for part in schema]
        # a number that is too large takes another branch, which fastavro looks for itself
        unchecked = {"int", "float"} if "double" in kinds else {"int"}
        return [
            _marked(part, logical, exact - unchecked if kind in ("int", "float") else exact)
            for part, kind in zip(schema, kinds, strict=True)
        ]
    if isinstance(schema, str):
        return {"type": schema, "logicalType": _EXACT} if schema in exact else schema
    if not isinstance(schema, dict):
        return schema
    marked, kind, name = dict(schema), schema.get("type"), schema.get("logicalType", "")
    if name in logical and (name != "decimal" or isinstance(schema.get("precision"), int)):
        marked["logicalType"] = logical[name]
    elif not name and kind in exact:
        marked["logicalType"] = _EXACT
    for part in {"type", "items", "values"} & schema.keys():
        if part != "type" or not isinstance(kind, str):
            marked[part] = _marked(schema[part], logical, exact)
    if isinstance(fields := schema.get("fields"), list):
        marked["fields"] = [
            {**field, "type": _marked(field["type"], logical, exact)} for field in fields
        ]
    return marked


def _paths(value: Any, output: Any, path: str) -> Iterator[str]:
    if output is value:
        yield path
    elif isinstance(output, dict):
        for key, item in output.items():
            plain = isinstance(key, str) and key.isidentifier()
            yield from _paths(value, item, f"{path}.{key}" if plain else f"{path}[{key!r}]")
    elif isinstance(output, (list, tuple)):
        for number, item in enumerate(output):
            yield from _paths(value, item, f"{path}[{number}]")
