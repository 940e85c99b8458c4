"""Converts the class API of the first generation to decorated functions.

A computation is an object with `name()` and `compute` or `compute_multi`, a decoder one with
`header_length`, `payload_length` and `decode`, and so on. Anything else is returned unchanged, for
`resolve` to validate.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable
from typing import Any

from wallaroo.api.functions import (
    Computation,
    Decoder,
    Decorated,
    Encoder,
    KeyExtractor,
    LengthFormat,
    MultiComputation,
)
from wallaroo.api.state_functions import MultiStateComputation, StateComputation
from wallaroo.resolution.problems import missing_instance
from wallaroo.user_code.exceptions import describe_error

_INTEGERS = "BHIQbhiq"
_SAMPLES = 64
"""Number of headers of mixed bytes, and of lengths from 0 upwards, on which `payload_length` must
agree with a format to be replaced by it; lengths around the powers of two are tried, too."""


def computation_of(thing: Any) -> Any:
    """Convert a class with `compute` or `compute_multi`, or an instance of one, to a computation.

    Raises:
        ValueError: It cannot be created without arguments, or has no name.
    """
    if not _computes(thing):
        return thing
    function, name, multi = _compute_of(thing)
    return (MultiComputation if multi else Computation)(function, name)


def state_computation_of(thing: Any) -> Any:
    """Convert an instance (or a class) with `compute` or `compute_multi` to a state computation.

    Raises:
        ValueError: It cannot be created without arguments, or has no name.
    """
    if not _computes(thing):
        return thing
    function, name, multi = _compute_of(thing)
    return (MultiStateComputation if multi else StateComputation)(function, name, None)


def key_extractor_of(thing: Any) -> Any:
    """Convert an object with `partition`, or a plain function, to a key extractor."""
    is_text = thing in {str, bytes} if inspect.isclass(thing) else isinstance(thing, (str, bytes))
    if _seems_to_have(thing, "partition") and not is_text:
        return KeyExtractor(thing.partition)
    is_plain = callable(thing) and not (inspect.isclass(thing) or isinstance(thing, Decorated))
    return KeyExtractor(thing) if is_plain else thing


def encoder_of(thing: Any) -> Any:
    """Convert an object with `encode` to an encoder."""
    if _seems_to_have(thing, "encode") and not isinstance(thing, (Encoder, str)):
        return Encoder(thing.encode)
    return thing


def decoder_of(thing: Any) -> Any:
    """Convert an object with `header_length`, `payload_length` and `decode` to a decoder.

    Raises:
        ValueError: It is a class instead of an instance, or its `header_length` raises.
    """
    methods = ("header_length", "payload_length", "decode")
    if isinstance(thing, Decoder) or not all(_has(thing, m) for m in methods):
        return thing
    if (problem := missing_instance(thing, *methods)) is not None:
        raise ValueError(problem)
    try:
        header_length = thing.header_length()
    except Exception as error:
        msg = f"header_length raises {describe_error(error)}"
        raise ValueError(msg) from error
    return Decoder(thing.decode, header_length, _length_format(header_length, thing.payload_length))


def _computes(thing: Any) -> bool:
    return _has(thing, "compute") or _has(thing, "compute_multi")


def _seems_to_have(thing: Any, method: str) -> bool:
    """Whether *thing* has *method*; False if accessing it raises."""
    try:
        return _has(thing, method)
    except ValueError:
        return False


def _has(thing: Any, method: str) -> bool:
    """Whether *thing* has *method*.

    Raises:
        ValueError: Accessing it raises, as a property may.
    """
    try:
        return callable(getattr(thing, method, None))
    except Exception as error:
        kind = thing if inspect.isclass(thing) else type(thing)
        msg = f"the attribute {method} of {kind.__name__} raises {describe_error(error)}"
        raise ValueError(msg) from error


def _compute_of(thing: Any) -> tuple[Callable[..., Any], str, bool]:
    """Return function and name of a class or an instance, and whether it returns an iterable."""
    instance, kind = thing, thing if inspect.isclass(thing) else type(thing)
    try:
        if instance is kind:
            instance = kind()
    except Exception as error:
        msg = (
            f"the class {kind.__name__} cannot be instantiated: {kind.__name__}() raises "
            f"{describe_error(error)}"
        )
        raise ValueError(msg) from error
    multi = _has(instance, "compute_multi")
    method = "compute_multi" if multi else "compute"
    try:
        name = instance.name()
    except Exception as error:
        msg = (
            f"the class {kind.__name__} has {method}, so its name() must return the name of the "
            f"step, but it raises {describe_error(error)}"
        )
        raise ValueError(msg) from error
    return getattr(instance, method), name, multi


def _length_format(header_length: Any, payload_length: Callable[[bytes], int]) -> LengthFormat:
    """Return the `struct` format that is equivalent to *payload_length*, or that itself."""
    layouts = [order + integer for order in "><" for integer in _INTEGERS]
    for layout in [at for at in layouts if struct.calcsize(at) == header_length]:
        samples = _headers(layout, header_length)
        try:
            if all(payload_length(bs) == struct.unpack(layout, bs)[0] for bs in samples):
                return layout
        except Exception:  # it rejects some headers, which no format does
            return payload_length
    return payload_length


def _headers(layout: str, size: int) -> list[bytes]:
    """Return sample headers for comparing `payload_length` with a format."""
    mixed = [
        bytes((17 * number + 59 * place * place) % 256 for place in range(size))
        for number in range(_SAMPLES)
    ]
    unsigned = layout.upper()
    around = [2**bit + by for bit in range(8 * size) for by in (-1, 0, 1)]
    lengths = {n % 2 ** (8 * size) for n in (*range(_SAMPLES), *around)}
    return [*mixed, *(struct.pack(unsigned, length) for length in sorted(lengths))]
