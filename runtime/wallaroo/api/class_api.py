"""The class API of the first generation, as protocols."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol, TypeAlias

from wallaroo.api.functions import AnyEncoded, Encoder, In_contra, Result_co


class DecoderClass(Protocol[Result_co]):
    """A decoder: the layout of frames, and the conversion of payloads to messages."""

    def header_length(self) -> int:
        """Return the length of the header before each payload, in bytes."""

    def payload_length(self, bs: bytes, /) -> int:
        """Return the length of the payload that follows the header *bs*, in bytes."""

    def decode(self, bs: bytes, /) -> Result_co:
        """Convert the payload *bs* to a message."""


class PayloadDecoder(Protocol[Result_co]):
    """A decoder for sources without frames."""

    def decode(self, bs: bytes, /) -> Result_co:
        """Convert the payload *bs* to a message."""


class ComputationClass(Protocol[In_contra, Result_co]):
    """A stateless computation that returns one message or None."""

    def name(self) -> str:
        """Return the name of the step."""

    def compute(self, data: In_contra, /) -> Result_co:
        """Return the output for the message *data*, or None."""


class MultiComputationClass(Protocol[In_contra, Result_co]):
    """A stateless computation that returns any number of messages."""

    def name(self) -> str:
        """Return the name of the step."""

    def compute_multi(self, data: In_contra, /) -> Result_co:
        """Return the outputs for the message *data*."""


class PartitionFunctionClass(Protocol[In_contra]):
    """A key extractor."""

    def partition(self, data: In_contra, /) -> Hashable:
        """Return the key of the message *data*."""


class EncoderClass(Protocol[In_contra]):
    """An encoder."""

    def encode(
        self, data: In_contra, /
    ) -> bytes | bytearray | memoryview | str | Mapping[str, Any] | None:
        """Return the output *data* as bytes or text, or None to send nothing.

        For a table, return the values of a row by column.
        """


AnyEncoder: TypeAlias = (
    Encoder[In_contra, Any] | EncoderClass[In_contra] | Callable[[In_contra], AnyEncoded]
)
"""What the configurations of sinks take: a function, decorated or not, or an object."""
