"""The classes of the first generation, as types: what they must have to take part."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from wallaroo.api.functions import In_contra, Result_co


class DecoderClass(Protocol[Result_co]):
    """A decoder: how frames are cut, and what their payloads mean."""

    def header_length(self) -> int:
        """Bytes before each payload."""

    def payload_length(self, bs: bytes, /) -> int:
        """Bytes of the payload behind the header *bs*."""

    def decode(self, bs: bytes, /) -> Result_co:
        """The message of the payload *bs*."""


class PayloadDecoder(Protocol[Result_co]):
    """A decoder where frames play no part."""

    def decode(self, bs: bytes, /) -> Result_co:
        """The message of the payload *bs*."""


class ComputationClass(Protocol[In_contra, Result_co]):
    """A stateless computation that gives one message or none."""

    def name(self) -> str:
        """Name of the step."""

    def compute(self, data: In_contra, /) -> Result_co:
        """What becomes of the message *data*."""


class MultiComputationClass(Protocol[In_contra, Result_co]):
    """A stateless computation that gives any number of messages."""

    def name(self) -> str:
        """Name of the step."""

    def compute_multi(self, data: In_contra, /) -> Result_co:
        """What becomes of the message *data*."""


class PartitionFunctionClass(Protocol[In_contra]):
    """A key extractor."""

    def partition(self, data: In_contra, /) -> Hashable:
        """The key of the message *data*."""


class EncoderClass(Protocol[In_contra]):
    """An encoder."""

    def encode(self, data: In_contra, /) -> bytes | bytearray | memoryview | str | None:
        """The bytes, or the text, of the output *data*."""
