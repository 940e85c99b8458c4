"""Base classes by the names that Wallaroo 0.5.4 and later have for them.

They ask nothing of their subclasses: what counts is the methods that a class has. What a decorator
makes counts as one of them, too.
"""

from __future__ import annotations

from abc import ABC

from wallaroo.api import functions


class Computation(ABC):  # noqa: B024  (what counts is the methods that a subclass has)
    """A stateless computation or, in its subclasses, one over state."""


class ComputationMulti(Computation):
    """A computation that gives any number of messages."""


class StateComputation(Computation):
    """A computation over a message and the state entity of its key."""


class StateComputationMulti(StateComputation, ComputationMulti):
    """A computation over state that gives any number of messages."""


class KeyExtractor(ABC):  # noqa: B024
    """A key function, as an object with `partition(data)`."""


class Decoder(ABC):  # noqa: B024
    """A decoder, as an object with `header_length`, `payload_length` and `decode`."""


class Encoder(ABC):  # noqa: B024
    """An encoder, as an object with `encode(data)`."""


Partition = KeyExtractor
OctetDecoder = Decoder
OctetEncoder = Encoder

Computation.register(functions.Computation)
ComputationMulti.register(functions.MultiComputation)
StateComputation.register(functions.StateComputation)
StateComputationMulti.register(functions.MultiStateComputation)
KeyExtractor.register(functions.KeyExtractor)
Decoder.register(functions.Decoder)
Encoder.register(functions.Encoder)
