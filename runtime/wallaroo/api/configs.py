"""Where messages come from and where outputs go."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar, overload

from wallaroo.api.class_api import DecoderClass, EncoderClass, PayloadDecoder
from wallaroo.api.functions import Decoder, Encoder, In_contra, Result_co
from wallaroo.api.keywords import also_called
from wallaroo.api.places import calling_place

_HOST_AND_PORT = 2
"""Parts of an address that has no name."""
Value = TypeVar("Value")
"""Type of the values that a generator makes."""


class TCPSourceConfig(Generic[Result_co]):
    """A source that listens on a TCP address for framed messages.

    Takes `(host, port, decoder)`, or `(name, host, port, decoder)` as the last Wallaroo did.

    Args:
        name: Name of the address; a source is called as its pipeline, so it changes nothing.
        host: Address to bind; "0.0.0.0" for every interface.
        port: Port to bind; 0 lets the system choose, and the `ready` event tells.
        decoder: Decoder of the payloads, which also says how frames are cut.
        valid: Taken for compatibility, changes nothing: there is one process that listens.
        parallelism: Taken for compatibility, changes nothing: messages are spread over all workers.
        max_size: Largest payload accepted, in bytes; None for that of `wallaroo run --max-frame`.
        max_received_count: Taken for compatibility, changes nothing.

    Example:
        >>> from wallaroo.api.functions import decoder
        >>> text = decoder(header_length=4, length_fmt=">I")(lambda bs: bs.decode())
        >>> TCPSourceConfig("127.0.0.1", "7010", text).port
        7010
        >>> TCPSourceConfig("Lines", "127.0.0.1", "7010", text, max_size=1000).max_size
        1000
    """

    @overload
    def __init__(
        self,
        host: str,
        port: int | str,
        decoder: Decoder[Result_co | None] | DecoderClass[Result_co | None],
        parallelism: int = 10,
    ) -> None: ...

    @overload
    def __init__(
        self,
        name: str,
        host: str,
        port: int | str,
        decoder: Decoder[Result_co | None] | DecoderClass[Result_co | None],
        valid: bool = True,
        parallelism: int = 10,
        max_size: int | None = None,
        max_received_count: int = 50,
    ) -> None: ...

    @also_called(encoder="decoder")  # as Wallaroo 0.1 and 0.2 had it
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # before the decoder stand host and port, or a name and these
        parts = len(list(itertools.takewhile(lambda part: isinstance(part, (int, str)), args)))
        parts += len({"host", "port"} & kwargs.keys())
        named = "name" in kwargs or parts > _HOST_AND_PORT
        (self._take_named if named else self._take)(*args, **kwargs)
        self.place = calling_place()

    def _take(
        self,
        host: str,
        port: int | str,
        decoder: Any,
        parallelism: int = 10,  # noqa: ARG002
    ) -> None:
        self._take_named("", host, port, decoder)

    def _take_named(
        self,
        name: str,
        host: str,
        port: int | str,
        decoder: Any,
        valid: bool = True,  # noqa: ARG002
        parallelism: int = 10,  # noqa: ARG002
        max_size: int | None = None,
        max_received_count: int = 50,  # noqa: ARG002
    ) -> None:
        self.name = name
        self.host = host
        self.port = int(port)
        self.decoder = decoder
        self.max_size = max_size

    def to_tuple(self) -> tuple[str, str, int, Any]:
        """The source as a tuple, as Wallaroo's own builder took it."""
        return ("tcp", self.host, self.port, self.decoder)


class Generator(Protocol[Value]):
    """What `GenSourceConfig` takes: a first value, and each next one from the one before.

    A value is all that a restart knows: `apply` must not lean on what the generator remembers
    besides, and values must pickle.
    """

    def initial_value(self) -> Value | None:
        """The first message; None for no message at all."""

    def apply(self, previous: Value, /) -> Value | None:
        """The message after *previous*; None ends the source."""


class GenSourceConfig(Generic[Value]):
    """A source whose messages a generator makes, as fast as they are processed.

    Takes `(gen)`, or `(name, gen)` as the last Wallaroo did. The values are the messages
    themselves: there is no decoder.

    Args:
        name: A name; a source is called as its pipeline, so it changes nothing.
        gen: An object with `initial_value()` and `apply(previous)`.

    Example:
        >>> class Numbers:
        ...     def initial_value(self):
        ...         return 1
        ...     def apply(self, previous):
        ...         return previous + 1 if previous < 1000 else None
        >>> GenSourceConfig("Numbers", Numbers()).name
        'Numbers'
    """

    @overload
    def __init__(self, gen: Generator[Value], /) -> None: ...

    @overload
    def __init__(self, name: str, gen: Generator[Value]) -> None: ...

    @overload
    def __init__(self, *, gen: Generator[Value]) -> None: ...

    @also_called(gen_instance="gen")
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        named = "name" in kwargs or len(args) + len(kwargs) > 1
        (self._take_named if named else self._take)(*args, **kwargs)
        self.place = calling_place()

    def _take(self, gen: Generator[Value]) -> None:
        self._take_named("", gen)

    def _take_named(self, name: str, gen: Generator[Value]) -> None:
        self.name = name
        self.gen = gen

    def to_tuple(self) -> tuple[str, Generator[Value]]:
        """The source as a tuple, as Wallaroo's own builder took it."""
        return ("gen", self.gen)


class FileSourceConfig(Generic[Result_co]):
    """A source that reads a file, each message exactly once across restarts.

    Args:
        path: The file; relative to the application's directory, as all that `application_setup`
            opens. It may grow, and must not change before what has been read.
        decoder: Decoder of the payloads. For frames it also says how they are cut.
        framing: "frames" for a header before each payload, "lines" for a message a line, which
            comes without its line feed.
        follow: Whether to wait for more at the end of the file; otherwise the source ends there.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        decoder: Callable[[bytes], Result_co | None] | PayloadDecoder[Result_co | None],
        framing: Literal["frames", "lines"] = "frames",
        follow: bool = False,
    ) -> None:
        self.path = Path(path).absolute()
        self.decoder = decoder
        self.framing = framing
        self.follow = follow
        self.place = calling_place()


class TCPSinkConfig(Generic[In_contra]):
    """A sink that connects to a TCP address and sends what its encoder makes.

    Args:
        host: Address of the receiver.
        port: Port of the receiver.
        encoder: Encoder of the outputs.
        sequenced: Send each output behind its number, and count it as delivered when the receiver
            has acknowledged the number: so it gets each output exactly once, whatever crashes
            (see `docs/protocol.md`).

    Example:
        >>> TCPSinkConfig("127.0.0.1", 7002, str).host
        '127.0.0.1'
    """

    @also_called(decoder="encoder")  # as Wallaroo 0.1 and 0.2 had it
    def __init__(
        self,
        host: str,
        port: int | str,
        encoder: Encoder[In_contra, Any] | EncoderClass[In_contra],
        *,
        sequenced: bool = False,
    ) -> None:
        self.host = host
        self.port = int(port)
        self.encoder = encoder
        self.sequenced = sequenced
        self.place = calling_place()

    def to_tuple(self) -> tuple[str, str, int, Any]:
        """The sink as a tuple, as Wallaroo's own builder took it."""
        return ("tcp", self.host, self.port, self.encoder)


class FileSinkConfig(Generic[In_contra]):
    """A sink that appends to a file, each output exactly once across restarts and kills.

    The file belongs to the sink, which remembers beside it, in `PATH.position`, how far it is
    written, and cuts off what is behind that: the rest of a write that a kill has torn.

    Args:
        path: The file; relative to the application's directory. It is made if it is not there.
        encoder: Encoder of the outputs.
        framing: "none" to write outputs as they are, "lines" to write a line feed after each.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        encoder: Encoder[In_contra, Any] | EncoderClass[In_contra],
        framing: Literal["none", "lines"] = "none",
    ) -> None:
        self.path = Path(path).absolute()
        self.encoder = encoder
        self.framing = framing
        self.place = calling_place()
