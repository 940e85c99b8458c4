"""The extension point: sources that are read and sinks that are written by Python code.

A source is a `MessageSource`, a sink an `OutputSink`; `SourceConfig` and `SinkConfig` put them into
a pipeline. The generator and the file sources and sinks that come along are made of the same two.

`application_setup` runs in every process that takes part, and the gateway alone reads and writes:
make the object there, and open files and connections no earlier than in `read` and `open`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from wallaroo.api.class_api import EncoderClass, PayloadDecoder
from wallaroo.api.functions import Encoder, In_contra, Result_co
from wallaroo.api.places import calling_place

Position = TypeVar("Position")
"""Type of a source's positions: anything that pickles, such as a number or a tuple."""


class MessageSource(ABC, Generic[Position]):
    """A stream of messages that can be read again from any of its positions.

    The runtime keeps the position of a message together with the message, in one transaction, and
    after a stop or a kill calls `read` with the last position that it kept. So each message is
    taken exactly once, if the source is *replayable*: reading twice from one position must give the
    same messages. A socket that is read and forgets is not; a file, a table or a log is.

    Example:
        >>> class Countdown(MessageSource[int]):
        ...     def read(self, position):
        ...         start = 3 if position is None else position - 1
        ...         for number in range(start, 0, -1):
        ...             yield b"%d" % number, number
        >>> list(Countdown().read(None))
        [(b'3', 3), (b'2', 2), (b'1', 1)]
        >>> list(Countdown().read(2))
        [(b'1', 1)]
    """

    @abstractmethod
    def read(self, position: Position | None) -> Iterator[tuple[bytes, Position] | None]:
        """The messages *behind* a position, in order, each with its own position.

        Runs in a thread of the gateway. An end of the iterator is the end of the source, until the
        application is started again. A generator function's `finally` runs when reading stops.

        Args:
            position: Position of the last message that was taken, None at the very first. Beware of
                off by one: that message must not come again.

        Yields:
            A payload, which goes to the decoder, and its position; or None where nothing is there
            *now*: the runtime looks whether it should stop and asks again in a moment. Never wait
            inside for longer than a second or so; yield None instead.

        Raises:
            FrameError: The source can never go on. Its messages so far count.
            Exception: Anything else is taken for a passing trouble: it is logged, and after a pause
                `read` is called again with the position of the last message that was taken.
        """

    def __str__(self) -> str:
        """What logs call it."""
        return type(self).__name__


class OutputSink(ABC):
    """A place for outputs that can tell which of them it has.

    The runtime gives outputs in order until `write` has returned for them. After a kill it gives
    those again whose `write` may not have returned, with the same numbers and the same bytes. A
    sink that keeps, together with the outputs, the number of the last one, and drops what it has
    already, has each output exactly once; one that ignores numbers has some twice after a kill.

    Example:
        >>> class Memory(OutputSink):
        ...     def __init__(self):
        ...         self.kept = []
        ...     def write(self, first, outputs):
        ...         self.kept += outputs[len(self.kept) - first :]
        >>> memory = Memory()
        >>> memory.write(0, [b"a", b"b"])
        >>> memory.write(1, [b"b", b"c"])
        >>> memory.kept
        [b'a', b'b', b'c']
    """

    def open(self, numbering: str) -> None:  # noqa: B027  (a sink may need none)
        """Make ready to write; called before the first `write`, and again after one that raised.

        Args:
            numbering: Name of the row of numbers that will come. It is the same after a restart,
                and another one where a new state directory begins at 0 again: numbers that were
                kept under another name say nothing.
        """

    @abstractmethod
    def write(self, first: int, outputs: Sequence[bytes]) -> None:
        """Take *outputs*, and return when they are safe: they are forgotten then.

        Runs in a thread of the gateway. An exception is logged, and after a pause the same outputs
        come again, behind `close` and `open`.

        Args:
            first: Number of the first of them; the others follow without gaps.
            outputs: What the encoder made, in order.
        """

    def close(self) -> None:  # noqa: B027
        """Let go of what `open` took; not called when the gateway is killed."""

    def __str__(self) -> str:
        """What logs call it."""
        return type(self).__name__


class SourceConfig(Generic[Result_co]):
    """A source of an application's own.

    Args:
        source: Reads the messages.
        decoder: From payload to message: a function, decorated or not, or an object with `decode`.
            Frames play no part in it.
    """

    def __init__(
        self,
        source: MessageSource[Any],
        decoder: Callable[[bytes], Result_co | None] | PayloadDecoder[Result_co | None],
    ) -> None:
        self.source = source
        self.decoder = decoder
        self.place = calling_place()


class SinkConfig(Generic[In_contra]):
    """A sink of an application's own.

    Args:
        sink: Writes the outputs.
        encoder: Encoder of the outputs.
    """

    def __init__(
        self, sink: OutputSink, encoder: Encoder[In_contra, Any] | EncoderClass[In_contra]
    ) -> None:
        self.sink = sink
        self.encoder = encoder
        self.place = calling_place()
