"""The configuration of a sink that prints."""

from __future__ import annotations

from wallaroo.api.class_api import AnyEncoder
from wallaroo.api.connectors import AnySink
from wallaroo.api.functions import In_contra
from wallaroo.api.places import calling_place


def as_text(output: object) -> str:
    """Encode an output as what `print` shows of it."""
    return str(output)


class PrintSinkConfig(AnySink[In_contra]):
    """A sink that prints each output on its own line of standard output.

    Outputs may be printed again after the gateway was killed. If nobody reads standard output any
    more, as after `| head`, they are discarded.

    Args:
        encoder: Encoder of the outputs; by default, they are printed as by `print`.

    Example:
        >>> PrintSinkConfig().encoder((1, "a"))
        "(1, 'a')"
    """

    connector = __package__

    def __init__(self, encoder: AnyEncoder[In_contra] = as_text) -> None:
        self.encoder = encoder
        self.place = calling_place()
