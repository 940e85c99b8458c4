"""Base classes with the names that Wallaroo has used since 0.5.4.

They do not constrain their subclasses: only the methods of a class matter. Objects that the
decorators create are instances of them, too.
"""

from __future__ import annotations

from abc import ABC

from wallaroo.api import functions, state_functions


class Computation(ABC):  # noqa: B024  (only the methods of a subclass matter)
    """A stateless computation; subclasses exist for state computations."""


class ComputationMulti(Computation):
    """A computation that returns any number of messages."""


class StateComputation(Computation):
    """A computation over a message and the state entity of its key."""


class StateComputationMulti(StateComputation, ComputationMulti):
    """A state computation that returns any number of messages."""


class KeyExtractor(ABC):  # noqa: B024
    """A key extractor: an object with `partition(data)`."""


class Decoder(ABC):  # noqa: B024
    """A decoder: an object with `header_length`, `payload_length` and `decode`.

    With the attribute `repeatable = True` it promises what `wallaroo.decoder` says of it.
    """


class Encoder(ABC):  # noqa: B024
    """An encoder: an object with `encode(data)`."""


Partition = KeyExtractor
OctetDecoder = Decoder
OctetEncoder = Encoder

Computation.register(functions.Computation)
ComputationMulti.register(functions.MultiComputation)
StateComputation.register(state_functions.StateComputation)
StateComputationMulti.register(state_functions.MultiStateComputation)
KeyExtractor.register(functions.KeyExtractor)
Decoder.register(functions.Decoder)
Encoder.register(functions.Encoder)
