"""Messages in byte streams, and the progress of transfers, for `send`, `receive` and `demo`."""

from __future__ import annotations

import sys
import time
from typing import Literal

from wallaroo.system.printable import counted
from wallaroo.wire.framing import Framing

FramingName = Literal["frames", "lines", "raw"]
_LEAST_OF_TEXT = ord("\t")
"""The least byte that a text begins with; a frame begins with one below it, up to 150 MB."""
U32 = Framing(4, ">I", max_frame=2**31 - 1)
"""Frames with an unsigned big-endian 32-bit length, as Wallaroo's example applications use."""


class Cutter:
    r"""Cuts a stream that arrives in pieces into messages.

    Args:
        framing: `frames`: including their headers; `lines`: including their endings; `raw`: as
            `lines`, but what a piece ends with is a message, too.
        layout: How frames are laid out.

    Example:
        >>> cutter = Cutter("lines")
        >>> cutter.feed(b"a\nb"), cutter.feed(b"c\n"), cutter.rest
        ([b'a\n'], [b'bc\n'], b'')
    """

    def __init__(self, framing: FramingName, layout: Framing = U32) -> None:
        self._framing, self._layout = framing, layout
        self.rest = b""
        """Bytes of an incomplete message."""

    def feed(self, piece: bytes) -> list[bytes]:
        """The messages that *piece* completes."""
        data = self.rest + piece if self.rest else piece
        if self._framing == "raw":
            return _lines(data)
        if self._framing == "lines":
            lines = data.splitlines(keepends=True) if b"\r" not in data else _lines(data)
            self.rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
            return lines
        end = self._layout.scan(data).end
        self.rest = data[end:]
        return [piece.data for piece in self._layout.pieces(data[:end])]


def framing_of(start: bytes) -> FramingName:
    r"""The framing of a file that begins with *start*.

    Example:
        >>> framing_of(b"\0\0\0\3ada"), framing_of(b"ada\n")
        ('frames', 'lines')
    """
    return "frames" if start and start[0] < _LEAST_OF_TEXT else "lines"


def _lines(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    last = parts.pop()
    return [part + b"\n" for part in parts] + ([last] if last else [])


class TransferProgress:
    """A line on the terminal, if there is one, that shows the progress of a transfer.

    Args:
        verb: What has been done: "sent", "received" or "read".
        quiet: Whether to print only the summary, because the terminal shows other output.
        rates: Whether to tell rates; not if there were pauses.
    """

    EVERY_S = 0.2
    """Seconds between updates."""

    def __init__(self, verb: str, *, quiet: bool = False, rates: bool = True) -> None:
        self._verb, self._rates = verb, rates
        self._on_terminal = sys.stderr.isatty() and not quiet
        self._shown_at = 0.0
        self._started: float | None = None
        self.messages = 0
        self.bytes = 0

    def add(self, messages: int, size: int) -> None:
        """Count messages, and update the line from time to time."""
        now = time.monotonic()
        if self._started is None:
            self._started = now
        self.messages += messages
        self.bytes += size
        if self._on_terminal and now - self._shown_at >= self.EVERY_S:
            self._shown_at = now
            print(f"\r{self.line()}   ", end="", file=sys.stderr, flush=True)

    def line(self) -> str:
        """The counts and the rate so far."""
        counts = f"{counted(self.messages, 'message')}, {self.bytes:,} bytes"
        if not self._rates:
            return f"{self._verb} {counts}"
        duration = time.monotonic() - self._started if self._started is not None else 0.0
        rate = f", {self.messages / duration:,.0f} messages/s" if duration > 0 else ""
        return f"{self._verb} {counts} in {duration:.1f} s{rate}"

    def clear(self) -> None:
        """Remove the line from the terminal, where a result takes its place."""
        if self._on_terminal and self._shown_at:
            print(f"\r{' ' * (len(self.line()) + 3)}\r", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Print the summary on standard error, apart from data on standard output."""
        if self._on_terminal:
            print("\r", end="", file=sys.stderr)
        print(self.line(), file=sys.stderr, flush=True)
