"""The classes of the first generation, as the decorated functions that they stand for.

A computation is an object with `name()` and `compute` or `compute_multi`, a decoder one with
`header_length`, `payload_length` and `decode`, and so on. What is decorated already, or is neither,
is given back as it is, for `resolve` to judge.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable
from typing import Any

from wallaroo.api.functions import (
    Computation,
    Decoder,
    Encoder,
    KeyExtractor,
    LengthFormat,
    MultiComputation,
    MultiStateComputation,
    StateComputation,
)
from wallaroo.model.problems import due_instance
from wallaroo.model.raised import told

_INTEGERS = "BHIQbhiq"
_SAMPLES = 64
"""Headers of mixed bytes on which a `payload_length` must agree with a format to be taken for it;
as many lengths from 0 on, and lengths around the powers of two, come on top."""


def computation_of(thing: Any) -> Any:
    """A class with `compute` or `compute_multi`, or an instance of one, as a computation.

    Raises:
        ValueError: It cannot be made without arguments, or has no name.
    """
    if not _computes(thing):
        return thing
    function, name, multi = _compute_of(thing)
    return (MultiComputation if multi else Computation)(function, name)


def state_computation_of(thing: Any) -> Any:
    """An instance (or a class) with `compute` or `compute_multi`, as a state computation.

    Raises:
        ValueError: It cannot be made without arguments, or has no name.
    """
    if not _computes(thing):
        return thing
    function, name, multi = _compute_of(thing)
    return (MultiStateComputation if multi else StateComputation)(function, name, None)


def key_extractor_of(thing: Any) -> Any:
    """An object with `partition`, or a plain function, as a key extractor."""
    is_text = thing in {str, bytes} if inspect.isclass(thing) else isinstance(thing, (str, bytes))
    if _seems_to_have(thing, "partition") and not is_text:
        return KeyExtractor(thing.partition)
    return KeyExtractor(thing) if inspect.isfunction(thing) else thing


def encoder_of(thing: Any) -> Any:
    """An object with `encode` as an encoder."""
    if _seems_to_have(thing, "encode") and not isinstance(thing, (Encoder, str)):
        return Encoder(thing.encode)
    return thing


def decoder_of(thing: Any) -> Any:
    """An object with `header_length`, `payload_length` and `decode` as a decoder.

    Raises:
        ValueError: It is a class and no instance, or its `header_length` raises.
    """
    methods = ("header_length", "payload_length", "decode")
    if isinstance(thing, Decoder) or not all(_has(thing, m) for m in methods):
        return thing
    if (problem := due_instance(thing, *methods)) is not None:
        raise ValueError(problem)
    try:
        header_length = thing.header_length()
    except Exception as error:
        msg = f"header_length raises {told(error)}"
        raise ValueError(msg) from error
    return Decoder(thing.decode, header_length, _length_of(header_length, thing.payload_length))


def _computes(thing: Any) -> bool:
    return _has(thing, "compute") or _has(thing, "compute_multi")


def _seems_to_have(thing: Any, method: str) -> bool:
    """Whether *thing* has *method*, which has not if looking for it raises."""
    try:
        return _has(thing, method)
    except ValueError:
        return False


def _has(thing: Any, method: str) -> bool:
    """Whether *thing* has *method*.

    Raises:
        ValueError: Looking for it raises, as a property may.
    """
    try:
        return callable(getattr(thing, method, None))
    except Exception as error:
        kind = thing if inspect.isclass(thing) else type(thing)
        msg = f"the attribute {method} of {kind.__name__} raises {told(error)}"
        raise ValueError(msg) from error


def _compute_of(thing: Any) -> tuple[Callable[..., Any], str, bool]:
    """Function and name of a class or an instance, and whether the function gives several."""
    made, kind = thing, thing if inspect.isclass(thing) else type(thing)
    try:
        if made is kind:
            made = kind()
    except Exception as error:
        msg = f"the class {kind.__name__} cannot be made: {kind.__name__}() raises {told(error)}"
        raise ValueError(msg) from error
    multi = _has(made, "compute_multi")
    method = "compute_multi" if multi else "compute"
    try:
        name = made.name()
    except Exception as error:
        msg = (
            f"the class {kind.__name__} has {method}, and name() is due beside it, which returns "
            f"the name of the step; it raises {told(error)}"
        )
        raise ValueError(msg) from error
    return getattr(made, method), name, multi


def _length_of(header_length: Any, payload_length: Callable[[bytes], int]) -> LengthFormat:
    """The `struct` format that reads headers as *payload_length* does; itself if there is none."""
    layouts = [order + integer for order in "><" for integer in _INTEGERS]
    for layout in [at for at in layouts if struct.calcsize(at) == header_length]:
        samples = _headers(layout, header_length)
        try:
            if all(payload_length(bs) == struct.unpack(layout, bs)[0] for bs in samples):
                return layout
        except Exception:  # it refuses some headers, as a format does not
            return payload_length
    return payload_length


def _headers(layout: str, size: int) -> list[bytes]:
    """Headers to ask a `payload_length` about."""
    mixed = [
        bytes((17 * number + 59 * place * place) % 256 for place in range(size))
        for number in range(_SAMPLES)
    ]
    unsigned = layout.upper()
    around = [2**bit + by for bit in range(8 * size) for by in (-1, 0, 1)]
    lengths = {n % 2 ** (8 * size) for n in (*range(_SAMPLES), *around)}
    return [*mixed, *(struct.pack(unsigned, length) for length in sorted(lengths))]
