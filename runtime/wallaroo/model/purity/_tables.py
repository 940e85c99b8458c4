"""Tables of pure builtin callables and methods.

Everything listed here returns the same result for the same arguments in every process, and calls no
user code except special methods of its arguments. Some seemingly harmless names are not listed:
those that depend on the local time zone or locale (`timestamp`, `astimezone`, `strftime`) or on the
context of the thread (`Decimal`), and those that return a consumable object (`iter`, `memoryview`).
"""

from __future__ import annotations

import base64
import binascii
import builtins
import collections
import dataclasses
import datetime
import enum
import functools
import json
import math
import re
import string
import struct
import types
import typing
import uuid
import zlib
from typing import Any


def words(text: str) -> frozenset[str]:
    """Return the words of *text*."""
    return frozenset(text.split())


HEAP_TYPE = 1 << 9
"""Flag of types created at run time, for example by a `class` statement."""

MODULES = (
    base64, binascii, collections, dataclasses, datetime, enum, functools, json, math, re, string,
    struct, typing, uuid, zlib,
)  # fmt: skip
"""Modules whose names are looked up directly, without their source."""
CONSTANTS = (string, math, re, datetime)
"""Modules whose plain values are the same in every process."""

SCALAR, CONSUME, STREAM, TEXT, UNSTABLE, SET = (
    "scalar", "consume", "stream", "text", "unstable", "set",
)  # fmt: skip
"""Kind of a callable: computes a plain value; consumes an iterable; returns an iterator; converts
any object to text; returns a value that differs between processes; creates a set."""

_NAMES: list[tuple[types.ModuleType, str, str]] = [
    (builtins, SCALAR, "abs bin bool bytearray bytes chr complex divmod float hex int len oct ord "
     "pow range round"),
    (builtins, CONSUME, "all any dict list max min sorted sum tuple"),
    (builtins, STREAM, "enumerate reversed zip"),
    (builtins, TEXT, "ascii repr str"),
    (builtins, UNSTABLE, "hash id"),
    (builtins, SET, "frozenset set"),
    (struct, SCALAR, "calcsize pack unpack unpack_from"),
    (struct, STREAM, "iter_unpack"),
    (json, SCALAR, "loads"),
    (math, CONSUME, "acos asin atan atan2 ceil copysign cos degrees exp fabs floor fmod frexp fsum "
     "gcd hypot isclose isfinite isinf isnan isqrt ldexp log log10 log1p log2 modf pow prod "
     "radians sin sqrt tan trunc"),
    (binascii, SCALAR, "a2b_base64 a2b_hex b2a_base64 b2a_hex crc32 hexlify unhexlify"),
    (base64, SCALAR, "b16decode b32decode b64decode b64encode b85decode standard_b64decode "
     "urlsafe_b64decode urlsafe_b64encode"),
    (zlib, SCALAR, "adler32 crc32 decompress"),
    (re, SCALAR, "findall fullmatch match search split sub"),
    (re, STREAM, "finditer"),
    (datetime, SCALAR, "date datetime time timedelta timezone"),
    (uuid, SCALAR, "UUID"),
]  # fmt: skip


def _genuine(module: types.ModuleType, obj: Any) -> bool:
    """Whether *obj* is defined by *module* itself and has not been replaced."""
    if isinstance(obj, types.FunctionType):
        return obj.__code__.co_filename == getattr(module, "__file__", None)
    if isinstance(obj, type):
        in_c = not obj.__flags__ & HEAP_TYPE or module is not builtins
        return in_c and obj.__module__ in {module.__name__, "builtins"}
    return isinstance(obj, types.BuiltinFunctionType)


CALLABLES: dict[int, tuple[Any, str]] = {
    id(obj): (obj, kind)
    for module, kind, names in _NAMES
    for obj in (getattr(module, name) for name in names.split())
    if _genuine(module, obj)
}
"""Pure callables by identity, with their kind."""

VALUE_TYPES = (
    str, bytes, bytearray, int, float, complex, bool, list, tuple, dict, set, frozenset, range,
    struct.Struct, re.Pattern, re.Match, datetime.date, datetime.datetime, datetime.time,
    datetime.timedelta, datetime.timezone, uuid.UUID, type(None), slice,
)  # fmt: skip
"""Types of all values except instances of user classes."""
OWN_NAMES = frozenset(name for kind in VALUE_TYPES for name in dir(kind))
"""Their attributes."""
METHOD_NAMES = frozenset(
    name for kind in VALUE_TYPES for name in dir(kind) if callable(getattr(kind, name))
)

PURE_METHODS = words(
    """capitalize casefold center count decode encode endswith expandtabs find hex index isalnum
    isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle
    isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind rindex rjust
    rpartition rsplit rstrip split splitlines startswith strip swapcase title translate upper zfill
    bit_count bit_length to_bytes as_integer_ratio conjugate is_integer
    get copy isdisjoint issubset issuperset union intersection difference symmetric_difference
    unpack unpack_from pack
    match fullmatch search findall group groups groupdict span start end
    date time timetz weekday isoweekday isoformat toordinal utcoffset total_seconds
    _asdict _replace"""
)
"""Methods that change nothing, for all builtin types."""
STREAM_METHODS = words("items keys values iter_unpack finditer")
"""The same, with a result that is an iterator or a view."""
MUTATING_METHODS = words(
    "append extend insert pop popitem remove clear sort reverse update setdefault add discard"
)
"""Methods that modify their object depending only on their arguments."""
ITERATING_METHODS = words("join extend update union intersection difference symmetric_difference")
CLASS_METHODS: dict[type, frozenset[str]] = {
    int: frozenset({"from_bytes"}),
    float: frozenset({"fromhex"}),
    bytes: frozenset({"fromhex", "maketrans"}),
    bytearray: frozenset({"fromhex"}),
    str: frozenset({"maketrans"}),
    dict: frozenset({"fromkeys"}),
    datetime.datetime: frozenset({"fromisoformat", "fromordinal", "combine"}),
    datetime.date: frozenset({"fromisoformat", "fromordinal"}),
    datetime.time: frozenset({"fromisoformat"}),
}

KEYWORDS = words(
    """encoding errors byteorder signed sep maxsplit keepends strict start base ndigits hex int
    bytes days seconds microseconds milliseconds minutes hours weeks year month day hour minute
    second microsecond tzinfo count offset validate altchars timespec fold
    reverse default"""
)
"""Keyword arguments that are values rather than callbacks."""
CODECS = words(
    """utf8 utf16 utf16le utf16be utf32 utf32le utf32be ascii usascii latin1 iso88591 iso885915
    cp1252 cp437 utf8sig"""
)
"""Encodings built into Python, without hyphens."""
CODEC_ERRORS = words("strict ignore replace surrogateescape backslashreplace")
FORMAT = re.compile(r"([^%]?[<>=^])?[ +-]?z?#?0?\d*[,_]?(\.\d+)?[bcdeEfFgGosxX%]?")
"""Formats that depend neither on the locale nor on the fields of a date."""
DATE_FORMAT = re.compile(r"(?:%[YmdHMSfjyz%]|[^%])*")
"""The same for `strptime`."""

NOT_ANALYSED = (RecursionError, MemoryError)
"""Exceptions that depend on stack depth and free memory, so user code must not catch them."""
