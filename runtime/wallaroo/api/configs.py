"""Configurations of the built-in sources and sinks."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar, overload

from wallaroo.api.class_api import DecoderClass, EncoderClass, PayloadDecoder
from wallaroo.api.functions import Decoder, Encoder, In_contra, Result_co
from wallaroo.api.keywords import keyword_aliases
from wallaroo.api.places import calling_place
from wallaroo.errors import WallarooParameterError

_MAX_PORT = 65535
_HOST_AND_PORT = 2
"""Number of parts of an address without a name."""
Value = TypeVar("Value")
"""Type of a generator's values."""
StreamFraming = Literal["frames", "lines"] | bytes | int
"""How the messages of a connection are told apart, see `TCPSourceConfig`."""


class TCPSourceConfig(Generic[Result_co]):
    """A source that listens on a TCP address for frames, lines, or other messages.

    Takes `(host, port, decoder)`, or `(name, host, port, decoder)` as the last Wallaroo versions
    do.

    Args:
        name: Ignored: a source has the name of its pipeline.
        host: Address to bind; "0.0.0.0" for all interfaces.
        port: Port to bind; 0 to let the system choose one, which the `ready` event reports.
        decoder: Decoder of the payloads. For frames, it also defines their layout; for everything
            else any function from bytes will do.
        framing: "frames" if a header precedes each payload; "lines" if each line is a message,
            without its line feed, also the last one of a connection that ends without one; bytes
            if each message ends with these bytes; a whole number if each message has that many
            bytes.
        valid: Ignored; accepted for compatibility. Only one process listens.
        parallelism: Ignored; accepted for compatibility. Messages go to all workers.
        max_size: Maximum length of a payload or line, in bytes; None for `wallaroo run
            --max-frame`.
        max_received_count: Ignored; accepted for compatibility.

    Example:
        >>> from wallaroo.api.functions import decoder
        >>> text = decoder(header_length=4, length_fmt=">I")(lambda bs: bs.decode())
        >>> TCPSourceConfig("127.0.0.1", "7010", text).port
        7010
        >>> TCPSourceConfig("Lines", "127.0.0.1", "7010", text, max_size=1000).max_size
        1000
        >>> TCPSourceConfig("127.0.0.1", 7010, bytes.decode, framing="lines").framing
        'lines'
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
        host: str,
        port: int | str,
        decoder: Callable[[bytes], Result_co | None] | PayloadDecoder[Result_co | None],
        parallelism: int = 10,
        *,
        framing: StreamFraming,
        max_size: int | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        name: str,
        host: str,
        port: int | str,
        decoder: Callable[[bytes], Result_co | None] | PayloadDecoder[Result_co | None],
        valid: bool = True,
        parallelism: int = 10,
        max_size: int | None = None,
        max_received_count: int = 50,
        *,
        framing: StreamFraming,
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

    @keyword_aliases(encoder="decoder")  # the name in Wallaroo 0.1 and 0.2
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # the decoder is preceded by host and port, or by name, host and port
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
        *,
        max_size: int | None = None,
        framing: StreamFraming = "frames",
    ) -> None:
        self._take_named("", host, port, decoder, max_size=max_size, framing=framing)

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
        *,
        framing: StreamFraming = "frames",
    ) -> None:
        self.name = name
        self.host = host_of(host)
        self.port = port_of(port)
        self.decoder = decoder
        self.max_size = max_size
        self.framing = framing

    # as TypeErrors of wrong arguments name them
    _take.__qualname__ = _take_named.__qualname__ = "TCPSourceConfig"

    def to_tuple(self) -> tuple[str, str, int, Any]:
        """Return the configuration as the tuple that Wallaroo's builder accepts."""
        return ("tcp", self.host, self.port, self.decoder)


class HTTPSourceConfig(Generic[Result_co]):
    """A source that takes messages by HTTP POST, and answers when they are on disk.

    Args:
        host: Address to bind; "0.0.0.0" for all interfaces.
        port: Port to bind; 0 to let the system choose one, which the `ready` event reports.
        decoder: Decoder of the messages; any function from bytes will do.
        path: The path that messages are posted to.
        max_size: Maximum length of a body, in bytes; None for `wallaroo run --max-frame`.

    Example:
        >>> HTTPSourceConfig("127.0.0.1", 7010, bytes.decode, path="/orders").path
        '/orders'
    """

    def __init__(
        self,
        host: str,
        port: int | str,
        decoder: Callable[[bytes], Result_co | None] | PayloadDecoder[Result_co | None],
        *,
        path: str = "/",
        max_size: int | None = None,
    ) -> None:
        self.host = host_of(host)
        self.port = port_of(port)
        self.decoder = decoder
        self.path = path
        self.max_size = max_size
        self.place = calling_place()


class Generator(Protocol[Value]):
    """The type that `GenSourceConfig` expects: each value is computed from the previous one.

    After a restart only the last value is known: `apply` must not depend on other state of the
    generator, and values must be picklable.
    """

    def initial_value(self) -> Value | None:
        """Return the first message, or None for an empty source."""

    def apply(self, previous: Value, /) -> Value | None:
        """Return the message after *previous*, or None to end the source."""


class GenSourceConfig(Generic[Value]):
    """A source that takes its messages from a generator, as fast as they are processed.

    Takes `(gen)`, or `(name, gen)` as the last Wallaroo versions do. The values themselves are the
    messages: there is no decoder.

    Args:
        name: Ignored: a source has the name of its pipeline.
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

    @keyword_aliases(gen_instance="gen")
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
        """Return the configuration as the tuple that Wallaroo's builder accepts."""
        return ("gen", self.gen)


class FileSourceConfig(Generic[Result_co]):
    """A source that reads a file, each message exactly once across restarts.

    Args:
        path: Path of the file, relative to the application's directory. The file may grow, but the
            part that has been read must not change.
        decoder: Decoder of the payloads. For frames, it also defines their layout.
        framing: "frames" if a header precedes each payload, "lines" if each line is a message,
            without its line feed.
        follow: Whether to wait for more data at the end of the file; if False, the source ends
            there.
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
    """A sink that connects to a TCP address and sends the encoded outputs.

    Args:
        host: Address of the receiver.
        port: Port of the receiver.
        encoder: Encoder of the outputs.
        sequenced: Send a number before each output, and count the output as delivered when the
            receiver has acknowledged the number. The receiver then gets each output exactly once,
            whichever process crashes (see `docs/protocol.md`).

    Example:
        >>> TCPSinkConfig("127.0.0.1", 7002, str).host
        '127.0.0.1'
    """

    @keyword_aliases(decoder="encoder")  # the name in Wallaroo 0.1 and 0.2
    def __init__(
        self,
        host: str,
        port: int | str,
        encoder: Encoder[In_contra, Any] | EncoderClass[In_contra],
        *,
        sequenced: bool = False,
    ) -> None:
        self.host = host_of(host)
        self.port = port_of(port)
        self.encoder = encoder
        self.sequenced = sequenced
        self.place = calling_place()

    def to_tuple(self) -> tuple[str, str, int, Any]:
        """Return the configuration as the tuple that Wallaroo's builder accepts."""
        return ("tcp", self.host, self.port, self.encoder)


class FileSinkConfig(Generic[In_contra]):
    """A sink that appends to a file, each output exactly once across restarts and kills.

    No other program may write to the file. The sink stores its position in `PATH.position`; when it
    opens the file, it truncates it to that position, which removes a partial write after a kill.

    Args:
        path: Path of the file, relative to the application's directory. It is created if necessary.
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


def host_of(host: Any) -> str:
    """Return *host*.

    Raises:
        TypeError: It is not text.
    """
    if not isinstance(host, str):
        msg = f"the host is {host!r}; expected a name or an address, such as '127.0.0.1'"
        raise TypeError(msg)
    return host


def port_of(port: Any) -> int:
    """Return *port* as a number.

    Raises:
        TypeError: It is neither a number nor digits.
        WallarooParameterError: There is no such port.
    """
    is_text = isinstance(port, str) and port.isascii() and port.isdigit()
    if not is_text and (isinstance(port, bool) or not isinstance(port, int)):
        msg = f"the port is {port!r}; expected a number, such as 7010"
        raise TypeError(msg)
    if not 0 <= int(port) <= _MAX_PORT:
        msg = f"the port is {port}; expected a number from 0 to {_MAX_PORT}"
        raise WallarooParameterError(msg)
    return int(port)
