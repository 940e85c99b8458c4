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

from wallaroo.api.functions import Computation, Decoder, Encoder, KeyExtractor, StateComputation

_INTEGERS = "BHIQbhiq"
_SAMPLES = 64
"""Headers on which a `payload_length` must agree with a format to be taken for it."""


def computation_of(thing: Any) -> Any:
    """A class with `compute` or `compute_multi`, or an instance of one, as a computation."""
    if not _computes(thing):
        return thing
    function, name, multi = _compute_of(thing)
    return Computation(function, name, multi=multi)


def state_computation_of(thing: Any) -> Any:
    """An instance (or a class) with `compute` or `compute_multi`, as a state computation."""
    if not _computes(thing):
        return thing
    function, name, multi = _compute_of(thing)
    return StateComputation(function, name, None, multi=multi)


def key_extractor_of(thing: Any) -> Any:
    """An object with `partition`, or a plain function, as a key extractor."""
    if callable(getattr(thing, "partition", None)) and not isinstance(thing, (str, bytes)):
        return KeyExtractor(thing.partition)
    return KeyExtractor(thing) if inspect.isfunction(thing) else thing


def encoder_of(thing: Any) -> Any:
    """An object with `encode` as an encoder."""
    if callable(getattr(thing, "encode", None)) and not isinstance(thing, (Encoder, str)):
        return Encoder(thing.encode)
    return thing


def decoder_of(thing: Any) -> Any:
    """An object with `header_length`, `payload_length` and `decode` as a decoder.

    Raises:
        ValueError: Its `payload_length` is no integer of the header's length in `struct`'s sense.
    """
    methods = ("header_length", "payload_length", "decode")
    if isinstance(thing, Decoder) or not all(callable(getattr(thing, m, None)) for m in methods):
        return thing
    header_length = thing.header_length()
    return Decoder(thing.decode, header_length, _format_of(header_length, thing.payload_length))


def _computes(thing: Any) -> bool:
    return callable(getattr(thing, "compute", None)) or callable(
        getattr(thing, "compute_multi", None)
    )


def _compute_of(thing: Any) -> tuple[Callable[..., Any], str, bool]:
    """Function and name of a class or an instance, and whether the function gives several."""
    made: Any = thing() if inspect.isclass(thing) else thing
    multi = callable(getattr(made, "compute_multi", None))
    return (made.compute_multi if multi else made.compute), made.name(), multi


def _format_of(header_length: int, payload_length: Callable[[bytes], int]) -> str:
    """The `struct` format that reads headers as *payload_length* does."""
    samples = [
        bytes((17 * number + 59 * place * place) % 256 for place in range(header_length))
        for number in range(_SAMPLES)
    ]
    try:
        told = [payload_length(sample) for sample in samples]
    except Exception as error:
        msg = f"payload_length raises on {header_length} bytes: {type(error).__name__}: {error}"
        raise ValueError(msg) from error
    for order in "><":
        for integer in _INTEGERS:
            layout = order + integer
            if struct.calcsize(layout) == header_length and told == [
                struct.unpack(layout, sample)[0] for sample in samples
            ]:
                return layout
    msg = f"payload_length reads no {header_length}-byte integer; decorate the decoder @decoder"
    raise ValueError(msg)
