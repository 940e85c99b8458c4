"""`wallaroo receive`: a receiver for the outputs of an application."""

from __future__ import annotations

import selectors
import socket
import sys
from typing import BinaryIO

import click

from wallaroo.api.addresses import Address
from wallaroo.cli.options import AddressType
from wallaroo.cli.transfer import Cutter, FramingName, Progress
from wallaroo.errors import FrameError, RuntimeFailure

_READ_BYTES = 256 * 1024


@click.command()
@click.option("--listen", type=AddressType(), required=True, help="Address to listen on.")
@click.option(
    "--framing",
    type=click.Choice(["u32", "lines", "raw"]),
    default="lines",
    show_default=True,
    help="How to count: frames with a big-endian 32-bit length, lines, or pieces as they come.",
)
@click.option("--count", type=click.IntRange(1), help="End after this many messages.")
@click.option(
    "--to",
    type=click.File("wb"),
    help="File for what is received.  [default: standard output for lines, else nowhere]",
)
def receive(listen: Address, framing: FramingName, count: int | None, to: BinaryIO | None) -> None:
    """Receive outputs until --count messages are there, or until interrupted.

    \b
    Example:
      wallaroo receive --listen 127.0.0.1:7002
    """  # noqa: D301  (click reads \b)
    if to is None and framing == "lines":
        to = sys.stdout.buffer
    progress = Progress("received")
    host, port = listen
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, int(port)), family=family)
    except OSError as error:
        msg = f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --listen"
        raise RuntimeFailure(msg) from error
    with listener, selectors.DefaultSelector() as selector:
        bound = listener.getsockname()
        print(f"listening on {bound[0]}:{bound[1]}", file=sys.stderr, flush=True)
        selector.register(listener, selectors.EVENT_READ)
        try:
            while count is None or progress.messages < count:
                _turn(selector, listener, framing, to, progress, count)
        except KeyboardInterrupt:
            pass
        finally:
            if to is not None:
                to.flush()
            progress.close()


def _turn(
    selector: selectors.BaseSelector,
    listener: socket.socket,
    framing: FramingName,
    to: BinaryIO | None,
    progress: Progress,
    count: int | None,
) -> None:
    """Wait for something, and take it."""
    for key, _ in selector.select():
        if key.fileobj is listener:
            connection, _ = listener.accept()
            selector.register(connection, selectors.EVENT_READ, Cutter(framing))
            continue
        connection = key.fileobj  # type: ignore[assignment]
        try:
            piece = connection.recv(_READ_BYTES)
            messages = key.data.feed(piece)
        except (OSError, FrameError) as error:
            print(f"connection closed: {error}", file=sys.stderr)
            piece, messages = b"", []
        if not piece:
            selector.unregister(connection)
            connection.close()
            continue
        if count is not None:
            messages = messages[: count - progress.messages]
        data = b"".join(messages)
        if to is not None:
            to.write(data)
            if to is sys.stdout.buffer:
                to.flush()
        progress.add(len(messages), len(data))
