r"""The frames of the acknowledged source protocol, which `docs/protocol.md` describes.

A connection that begins with `PREAMBLE` speaks it. Both sides then send frames: a length, a kind,
and what the kind has. Nothing here knows of sockets.

Example:
    >>> encode(Hello(1, "orders"))
    b'\x00\x00\x00\x0b\x01\x00\x01\x00\x06orders'
    >>> cutter = FrameCutter(max_body=100)
    >>> cutter.feed(encode(Hello(1, "orders")) + b"\0\0\0")
    [Hello(version=1, stream='orders')]
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from wallaroo.errors import FrameError
from wallaroo.wire.framing import Framing

PREAMBLE = b"\xf7wallaroo acked\n"
"""First bytes of a connection that speaks the protocol: no whole frame of a plain source is a part
of it, so a plain connection never waits for more bytes to tell the two apart."""
VERSION = 1
MAX_STREAM_BYTES = 200
"""Length of a stream's name at most, in UTF-8."""
BATCH_BYTES = 64 * 1024
"""Messages are sent together up to this size, or one that is larger alone."""
PAYLOADS = Framing(4, ">I", max_frame=2**32 - 1)
"""How the payloads of `Messages` are laid out, whatever the source's own framing is."""

_SIZE = struct.Struct(">I")
_HEAD = struct.Struct(">IB")
_HELLO = struct.Struct(">HH")
_WELCOME = struct.Struct(">HQQ")
_ACK = struct.Struct(">QQ")
_FIRST = struct.Struct(">Q")


class Hello(NamedTuple):
    """The sender's first frame."""

    version: int
    stream: str
    """Name of the stream; numbers belong to it, whichever connection they come on."""


class Welcome(NamedTuple):
    """The gateway's answer."""

    version: int
    last: int
    """Number of the stream's last message that is on disk, 0 before the first."""
    limit: int
    """Number up to which messages may be sent."""


class Messages(NamedTuple):
    """Messages in a row."""

    first: int
    """Number of the first of them."""
    data: bytes
    """The payloads, each after its length as an unsigned big-endian 32-bit integer."""


class Ack(NamedTuple):
    """The gateway has more on disk, or room for more."""

    last: int
    """As in `Welcome`."""
    limit: int
    """As in `Welcome`."""


class Refusal(NamedTuple):
    """The gateway's last frame: why it closes the connection, and will close the next one, too."""

    reason: str


Frame = Hello | Welcome | Messages | Ack | Refusal

_HELLO_KIND, _WELCOME_KIND, _MESSAGES_KIND, _ACK_KIND, _REFUSAL_KIND = range(1, 6)


def encode(frame: Frame) -> bytes:
    """*frame* as bytes."""
    match frame:
        case Hello(version, stream):
            name = stream.encode()
            return _framed(_HELLO_KIND, _HELLO.pack(version, len(name)) + name)
        case Welcome():
            return _framed(_WELCOME_KIND, _WELCOME.pack(*frame))
        case Messages(first, data):
            return _framed(_MESSAGES_KIND, _FIRST.pack(first) + data)
        case Ack():
            return _framed(_ACK_KIND, _ACK.pack(*frame))
        case Refusal(reason):
            return _framed(_REFUSAL_KIND, reason.encode())


def check_stream(name: str) -> str | None:
    """What is wrong with *name* as a stream's name, if something is."""
    if (
        not name
        or len(name.encode("utf-8", "replace")) > MAX_STREAM_BYTES
        or not name.isprintable()
    ):
        return (
            f"{name[:MAX_STREAM_BYTES]!r} is not a valid stream name: "
            f"1 to {MAX_STREAM_BYTES} bytes of printable text are"
        )
    return None


class FrameCutter:
    """Cuts a byte stream into frames.

    Args:
        max_body: Largest number of bytes after the length of a frame.
    """

    def __init__(self, max_body: int) -> None:
        self._max_body = max_body
        self._buffer = bytearray()

    @property
    def held(self) -> int:
        """Bytes of a frame that is not complete."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that *data* completes.

        Raises:
            FrameError: It is not a valid frame, or is too large; the frames before it are lost,
                as nothing was answered to them yet.
        """
        buffer = self._buffer
        buffer += data
        frames: list[Frame] = []
        start = 0
        while len(buffer) - start >= _SIZE.size:
            (size,) = _SIZE.unpack_from(buffer, start)
            if not 1 <= size <= self._max_body:
                msg = f"a frame of {size} bytes, and 1 to {self._max_body} are allowed"
                raise FrameError(msg)
            end = start + _SIZE.size + size
            if end > len(buffer):
                break
            kind = buffer[start + _SIZE.size]
            frames.append(_decode(kind, bytes(memoryview(buffer)[start + _HEAD.size : end])))
            start = end
        del buffer[:start]
        return frames


def _framed(kind: int, body: bytes) -> bytes:
    return _HEAD.pack(1 + len(body), kind) + body


def _decode(kind: int, body: bytes) -> Frame:
    try:
        match kind:
            case 1:
                version, length = _HELLO.unpack_from(body)
                name = body[_HELLO.size :]
                if len(name) < length:  # a later version may send more after the name
                    msg = f"a stream name of {length} bytes, and {len(name)} are there"
                    raise FrameError(msg)
                return Hello(version, name[:length].decode())
            case 2:
                return Welcome(*_WELCOME.unpack_from(body))
            case 3:
                (first,) = _FIRST.unpack_from(body)
                return Messages(first, body[_FIRST.size :])
            case 4:
                return Ack(*_ACK.unpack_from(body))
            case 5:
                return Refusal(body.decode("utf-8", "replace"))
    except (struct.error, UnicodeDecodeError) as error:
        msg = f"a frame of kind {kind} that cannot be read: {error}"
        raise FrameError(msg) from error
    msg = f"a frame of kind {kind}, which version {VERSION} does not have"
    raise FrameError(msg)
