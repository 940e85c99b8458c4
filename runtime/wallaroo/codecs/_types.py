"""Types of messages: which ones there are, and conversion into them and from them."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable
from typing import Any

from wallaroo.codecs._construction import name_of_type
from wallaroo.codecs._defaults import types_in, with_defaults
from wallaroo.system.packages import required
from wallaroo.user_code.callers import one_call

_SHOWN = 3
"""Mistakes of one message that an error shows."""
_LONGEST = 80
"""Characters of a value that an error shows."""


class Mismatch(ValueError):
    """A value is not of the type that the decoder was made for."""


def is_model(kind: Any) -> bool:
    """Whether *kind* is a class of pydantic models; False without importing pydantic."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def check_type(kind: Any, codec: str) -> None:
    """Refuse types that no message could be converted into.

    Raises:
        TypeError: *kind* is one, or contains one.
    """
    msgspec = required("msgspec", codec)
    try:
        info = msgspec.inspect.type_info(kind)
    except Exception as error:  # whatever annotations raise when they are resolved
        msg = f"{codec}: messages cannot be of type {kind!r}: {error}"
        raise TypeError(msg) from None
    for where, part in types_in(info):
        if isinstance(part, msgspec.inspect.CustomType) and not is_model(custom := part.cls):
            found = f"the class {custom.__name__}" if isinstance(custom, type) else repr(custom)
            msg = (
                f"{codec}: {where}{found} says nothing about its fields; expected a dataclass, a "
                "TypedDict, a NamedTuple, a msgspec.Struct, a pydantic model, an Enum, or a type "
                "such as int, list[int] or datetime"
            )
            raise TypeError(msg)


@one_call
def validating(kind: Any, validate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap *validate*, of the pydantic model *kind*, to say in one line what is wrong."""
    from pydantic import ValidationError

    def call(value: Any) -> Any:
        try:
            return validate(value)
        except ValidationError as error:
            raise Mismatch(_in_words(error)) from None

    call.__name__ = name_of_type(kind)
    return call


def _in_words(error: Any) -> str:
    found = error.errors(include_url=False, include_context=False)
    parts = []
    for mistake in found[:_SHOWN]:
        steps = (f"[{at}]" if isinstance(at, int) else f".{at}" for at in mistake["loc"])
        value = repr(mistake["input"])
        value = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
        parts.append(f"{mistake['msg']}, got {value} - at `${''.join(steps)}`")
    more = len(found) - len(parts)
    return "; ".join(parts) + (f"; and {more} more" if more > 0 else "")


def converting(kind: Any, codec: str, *, strict: bool) -> Callable[[Any], Any] | None:
    """Return a function that converts plain values into *kind*; None for no conversion.

    Raises:
        TypeError: *kind* is no type of messages.
    """
    if kind is Any:
        return None
    if is_model(kind):
        return validating(kind, kind.model_validate)
    check_type(kind, codec)
    convert = required("msgspec", codec).convert

    @one_call
    def call(value: Any) -> Any:
        return convert(value, kind, strict=strict, dec_hook=from_plain)

    return with_defaults(kind, call, codec)


@one_call
def from_plain(kind: Any, value: Any) -> Any:
    """Make a pydantic model, which msgspec does not know, of a plain value."""
    return validating(kind, kind.model_validate)(value)


@one_call
def to_plain(value: Any) -> Any:
    """Make a plain value of an object that msgspec does not know.

    Among them are numbers and texts of other classes, such as numpy's. Of plain values, msgspec
    asks for those that JSON does not have as keys.

    Raises:
        TypeError: There is no plain value for it.

    Example:
        >>> class Text(str): ...
        >>> to_plain(Text("ABC"))
        'ABC'
    """
    kind = type(value)
    if is_model(kind):
        return value.model_dump()
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, numbers.Integral) and kind is not bool:
        return int(value)
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        return float(value)
    if (numpy := sys.modules.get("numpy")) is not None and isinstance(value, numpy.bool_):
        return bool(value)
    if _is_known(value):
        msg = (
            f"a key of a dictionary is {value!r:.{_LONGEST}}, of class {kind.__name__}; JSON's are "
            "texts, which numbers, times and enumerations are written as"
        )
        raise TypeError(msg)
    msg = (
        f"an object of class {kind.__name__} cannot be encoded; expected plain values, "
        "dataclasses, msgspec.Structs or pydantic models"
    )
    raise TypeError(msg)


def _is_known(value: Any) -> bool:
    """Whether msgspec knows the class of *value*, whatever it contains: it is not asked for."""
    asked_for: list[Any] = []
    required("msgspec", "to_plain").to_builtins(value, enc_hook=asked_for.append)
    return not any(asked is value for asked in asked_for)
