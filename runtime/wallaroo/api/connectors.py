"""The interface of sources and sinks to an application, and base classes for custom ones.

Implement `MessageSource` or `OutputSink`, and put it into a pipeline with `SourceConfig` or
`SinkConfig`. The built-in generators, file sources and file sinks are implemented in the same way.

`application_setup` runs in every process, but only the gateway reads sources and writes sinks:
create the object in `application_setup`, and open files and connections in `read` and `open`.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

from wallaroo.api.functions import In_contra, Result_co
from wallaroo.api.places import Place

Position = TypeVar("Position")
"""Type of a source's positions: any picklable value, such as a number or a tuple."""
Row = dict[str, Any]
"""Values by the names of columns."""


class AnySource(Generic[Result_co]):
    """The configuration of a source, of which each connector has a subclass."""

    connector: ClassVar[str]
    """Package of the connector; its module `resolve` has a function `source`."""
    place: Place
    """Where the application creates it."""


class AnySink(Generic[In_contra]):
    """The configuration of a sink, of which each connector has a subclass."""

    connector: ClassVar[str]
    """Package of the connector; its module `resolve` has a function `sink`."""
    encoder: Any
    place: Place
    """Where the application creates it."""
    given_name: str | None = None
    """See `named`."""

    def named(self, name: str) -> Self:
        """Return the same sink under *name*, instead of a name that its pipeline gives it.

        The name is that in metrics, the dashboard, logs and errors, and what waits for the sink is
        kept by it across restarts.

        Example:
            >>> import wallaroo
            >>> from wallaroo.testing import simulate
            >>> text = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
            >>> line = wallaroo.encoder(str.encode)
            >>> builder = wallaroo.ApplicationBuilder("Copy")
            >>> _ = builder.new_pipeline("Texts", wallaroo.TCPSourceConfig("", 0, text))
            >>> sinks = [wallaroo.TCPSinkConfig("", port, line) for port in (1, 2)]
            >>> _ = builder.to_sinks([sinks[0].named("archive"), sinks[1]])
            >>> simulate(builder.build(), [("Texts", b"a")]).by_sink
            {'archive': [b'a'], 'Texts 2': [b'a']}
        """
        named = copy.copy(self)
        named.given_name = name
        return named


class AnyDeadLetters:
    """Where dead letters are published; each connector that can has a subclass."""

    sink: AnySink[Any]
    """The sink; the module `dead_letters` of its connector has a function `encode`."""
    keep: bool
    """Whether they are also kept in the state directory."""


class MessageSource(ABC, Generic[Position]):
    """A stream of messages that can be read again from any position.

    The runtime stores each message and its position in one transaction. After a stop or a kill, it
    calls `read` with the last stored position. Each message is therefore accepted exactly once if
    the source is *replayable*: reading again from the same position must yield the same messages.
    Files, tables and logs are replayable; a socket is not.

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
        """Yield the messages *after* a position, in order, each with its position.

        Runs in a thread of the gateway. When the iterator ends, the source ends, until the
        application is restarted. If `read` is a generator function, its `finally` blocks run when
        reading stops.

        Args:
            position: Position of the last accepted message; None at the very first start. Beware of
                off-by-one errors: that message must not be yielded again.

        Yields:
            A payload for the decoder and its position; or None if no message is available *now*:
            the runtime then checks whether it should stop, and resumes the iterator shortly
            afterwards. Do not block for longer than about a second; yield None instead. A table
            that is read first ends with the first None.

        Raises:
            FrameError: The source cannot continue. Messages accepted so far are processed.
            Exception: Any other exception is considered temporary: it is logged, and after a pause
                `read` is called again with the position of the last accepted message.
        """

    def __str__(self) -> str:
        """Return the name of the source in logs."""
        return type(self).__name__


class OutputSink(ABC):
    """A destination for outputs that can recognise repeated outputs.

    The runtime passes outputs to `write` in order. After a kill, it repeats those for which `write`
    may not have returned, with the same numbers and the same bytes. A sink that stores the number
    of the last output together with the outputs, and drops repeated ones, gets each output exactly
    once. A sink that ignores the numbers may get some outputs twice after a kill.

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
        """Prepare for writing; called before the first `write`, and again after one that raised.

        Args:
            numbering: Name of the sequence of numbers. It stays the same after a restart, and
                changes when a new state directory starts numbering at 0 again: numbers stored under
                another name are meaningless.
        """

    @abstractmethod
    def write(self, first: int, outputs: Sequence[bytes]) -> None:
        """Store *outputs*, and return once they are durable: the runtime then deletes them.

        Runs in a thread of the gateway. If it raises, the exception is logged, and after a pause
        `close` and `open` are called, and `write` again with the same outputs.

        Args:
            first: Number of the first output; the others follow without gaps.
            outputs: Encoded outputs, in order.
        """

    def close(self) -> None:  # noqa: B027
        """Release the resources that `open` acquired; not called when the gateway is killed."""

    def __str__(self) -> str:
        """Return the name of the sink in logs."""
        return type(self).__name__
