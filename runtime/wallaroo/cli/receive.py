"""`wallaroo receive`: receives the outputs of an application."""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import sys
from typing import BinaryIO

import click

from wallaroo.api.addresses import Address
from wallaroo.cli.option_types import ADDRESS
from wallaroo.cli.streams import Cutter, FramingName, TransferProgress
from wallaroo.errors import FrameError, RuntimeFailure
from wallaroo.system.binding import listening_socket, why_not_bound
from wallaroo.system.printable import printable, printable_output
from wallaroo.wire.numbered import NUMBER, SequenceCutter

_READ_BYTES = 256 * 1024


@click.command()
@click.option("--listen", type=ADDRESS, required=True, help="Address to listen on.")
@click.option(
    "--framing",
    type=click.Choice(["frames", "lines", "raw"]),
    default="lines",
    show_default=True,
    help="What counts as a message. frames: a frame with a big-endian 32-bit length. lines: a "
    "line. raw: a line, or the part of one that is read.",
)
@click.option(
    "--sequenced",
    is_flag=True,
    help="Expect outputs preceded by sequence numbers, from a sequenced sink: drop duplicates, and "
    "close the connection if an output is missing.",
)
@click.option("--count", type=click.IntRange(1), help="Exit after this many messages.")
@click.option(
    "--to",
    type=click.File("wb", lazy=False),
    help="File to write the outputs to.  [default: standard output for lines, otherwise none]",
)
def receive(
    listen: Address, framing: FramingName, sequenced: bool, count: int | None, to: BinaryIO | None
) -> None:
    """Receive outputs until --count messages have arrived, or until interrupted.

    \b
    Example:
      wallaroo receive --listen 127.0.0.1:7002
    """  # noqa: D301  (click reads \b)
    if to is None and framing == "lines":
        to = sys.stdout.buffer
    reception = _Reception(framing, sequenced, to, count)
    host, port = listen
    try:
        listener = listening_socket(host, int(port))
    except (OSError, UnicodeError) as error:
        msg = f"cannot listen on {host}:{port}: {why_not_bound(error, host, '--listen')}"
        raise RuntimeFailure(msg) from error
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)
    with listener:
        bound = listener.getsockname()
        print(f"listening on {bound[0]}:{bound[1]}", file=sys.stderr, flush=True)
        try:
            reception.serve(listener)
        except KeyboardInterrupt:
            pass
        finally:
            reception.close()


class _Reception:
    """Receives messages from any number of connections.

    Args:
        framing: What counts as a message.
        sequenced: Whether outputs are preceded by sequence numbers, regardless of *framing*.
        to: File to write to; None to discard messages.
        count: Number of messages after which `serve` returns; None to continue.
    """

    def __init__(
        self, framing: FramingName, sequenced: bool, to: BinaryIO | None, count: int | None
    ) -> None:
        self._framing: FramingName = framing
        self._sequenced = sequenced
        self._last_numbers: dict[str, int] = {}
        self._repeated = 0
        self._to = to
        self._count = count
        self._on_terminal = to is sys.stdout.buffer and sys.stdout.isatty()
        self._progress = TransferProgress("received", quiet=self._on_terminal)

    def serve(self, listener: socket.socket) -> None:
        """Accept connections and receive until there are enough messages."""
        with selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            while self._count is None or self._progress.messages < self._count:
                for key, _ in selector.select():
                    if key.fileobj is listener:
                        connection, _ = listener.accept()
                        cutter = (
                            SequenceCutter(self._last_numbers)
                            if self._sequenced
                            else Cutter(self._framing)
                        )
                        selector.register(connection, selectors.EVENT_READ, (connection, cutter))
                    elif not self._receive(*key.data):
                        selector.unregister(key.fileobj)
                        key.data[0].close()
                        if self._sequenced:
                            self._repeated += key.data[1].repeated

    def close(self) -> None:
        """Flush the file, and print the summary."""
        if self._to is not None:
            self._to.flush()
        self._progress.close()
        if self._repeated:
            print(f"dropped {self._repeated:,} duplicates", file=sys.stderr)

    def _receive(self, connection: socket.socket, cutter: Cutter | SequenceCutter) -> bool:
        """Receive from *connection*; returns whether there may be more."""
        try:
            piece = connection.recv(_READ_BYTES)
            messages = cutter.feed(piece)
        except (OSError, FrameError) as error:
            print(f"connection closed: {printable(error)}", file=sys.stderr)
            return False
        if not piece and cutter.rest:
            if self._framing == "lines" and not self._sequenced:
                messages = [cutter.rest]  # the last line may lack its ending
            else:
                print(
                    f"the stream ended with an incomplete frame of {len(cutter.rest)} bytes",
                    file=sys.stderr,
                )
        arrived = len(messages)
        if self._count is not None:
            messages = messages[: self._count - self._progress.messages]
        data = b"".join(messages)
        if self._to is not None and data:
            self._to.write(printable_output(data) if self._on_terminal else data)
            self._to.flush()  # others may be reading it
        if isinstance(cutter, SequenceCutter) and piece:
            with contextlib.suppress(OSError):  # unacknowledged outputs are sent again
                connection.sendall(NUMBER.pack(cutter.last - (arrived - len(messages))))
        self._progress.add(len(messages), len(data))
        return bool(piece)
