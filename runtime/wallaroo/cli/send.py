"""`wallaroo send`: sends messages from a file or standard input to a source."""

from __future__ import annotations

import socket
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from wallaroo.api.addresses import Address
from wallaroo.cli.option_types import FILE, AddressType, NumberType
from wallaroo.cli.streams import U32, Cutter, FramingName, TransferProgress, framing_of
from wallaroo.client import Sender
from wallaroo.errors import FrameError, RuntimeFailure, reason_of
from wallaroo.system.binding import unresolved
from wallaroo.system.tls import TLSFiles

_READ_BYTES = 256 * 1024
_IF_LINES = "if each line is a message, use --framing lines"
_PACE_S = 0.005
"""Seconds between the bursts in which messages are sent, if there is a rate."""
_CONNECT_TIMEOUT_S = 10.0


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option("--to", "to", type=AddressType(), required=True, help="Address of the source.")
@click.option(
    "--framing",
    type=click.Choice(["frames", "lines", "raw"]),
    show_default="frames if FILE begins with one, otherwise lines",
    help="Format of FILE. frames: each has a big-endian 32-bit length, and is sent unchanged. "
    "lines: lines of text, each sent as such a frame, without its line ending. "
    "raw: sent unchanged, for a source of lines or of another framing; each line counts as one "
    "message.",
)
@click.option("--rate", type=NumberType(positive=True), help="Messages per second.")
@click.option("--repeat", default=1, type=click.IntRange(1), help="How often to send FILE.")
@click.option(
    "--acked",
    "stream",
    metavar="STREAM",
    help="Use the acknowledged protocol, with a stream of this name: each message is accepted "
    "exactly once, whatever fails. Another call with the same name resumes after the messages "
    "already accepted.",
)
@click.option(
    "--tls-ca",
    type=FILE,
    help="CA certificates (PEM) that the source's certificate is verified against; enables TLS.",
)
@click.option(
    "--tls-cert",
    type=FILE,
    help="Client certificate to present to the source (PEM).",
)
@click.option(
    "--tls-key",
    type=FILE,
    help="Private key for --tls-cert (PEM).",
)
def send(
    file: BinaryIO,
    to: Address,
    framing: FramingName | None,
    rate: float | None,
    repeat: int,
    stream: str | None,
    tls_ca: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
) -> None:
    """Send the messages of FILE (- for standard input) to a source.

    \b
    Example:
      wallaroo send README.md --to 127.0.0.1:7010
    """  # noqa: D301  (click reads \b)
    if repeat > 1 and not file.seekable():
        msg = "--repeat requires a file that can be read again, not a stream"
        raise click.UsageError(msg)
    tls = TLSFiles(tls_cert, tls_key, tls_ca).connecting()
    if stream is None:
        _send_plain(to, tls, _paced(_messages(file, framing, repeat), rate))
    elif framing == "raw":
        msg = (
            "--acked requires messages, which --framing raw does not separate; use --framing lines"
        )
        raise click.UsageError(msg)
    else:
        _send_acked(to, tls, stream, _paced(_messages(file, framing, repeat), rate))


def _send_acked(
    to: Address, tls: ssl.SSLContext | None, stream: str, groups: Iterator[tuple[int, bytes]]
) -> None:
    host, port = to
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    progress = TransferProgress("sent")
    with Sender(address, stream, tls=tls) as sender:
        skip = sender.acknowledged
        if skip:
            print(f"{skip:,} messages of {stream!r} were already accepted", file=sys.stderr)
        try:
            for count, data in groups:
                payloads = U32.split(data)[skip:]
                skip -= count - len(payloads)
                for payload in payloads:
                    sender.send(payload)
                progress.add(len(payloads), len(data))
            sender.flush()
        except RuntimeFailure:
            progress.close()
            raise
    progress.close()


def _send_plain(
    to: Address, tls: ssl.SSLContext | None, groups: Iterator[tuple[int, bytes]]
) -> None:
    host, port = to
    try:
        connection = socket.create_connection((host, int(port)), _CONNECT_TIMEOUT_S)
        if tls is not None:
            connection = tls.wrap_socket(connection, server_hostname=host)
    except OSError as error:
        refused = f"{reason_of(error)}; is the source listening?"
        msg = f"cannot connect to {host}:{port}: {unresolved(error, host, '--to') or refused}"
        raise RuntimeFailure(msg) from error
    progress = TransferProgress("sent")
    with connection:
        connection.settimeout(None)
        try:
            for count, data in groups:
                connection.sendall(data)
                progress.add(count, len(data))
            _finish(connection)
        except OSError as error:
            progress.close()
            msg = f"{host}:{port} closed the connection: {reason_of(error)}"
            raise RuntimeFailure(msg) from error
    progress.close()


def _finish(connection: socket.socket) -> None:
    """Wait until the other side has closed, which it does after receiving everything."""
    if isinstance(connection, ssl.SSLSocket):
        connection.unwrap()
    else:
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass


def _messages(file: BinaryIO, framing: FramingName | None, repeat: int) -> Iterator[list[bytes]]:
    """The messages of *file*, framed, in groups; without a *framing*, its first byte tells it."""
    for repetition in range(repeat):
        if repetition:
            file.seek(0)
        read = getattr(file, "read1", file.read)  # reads what a pipe has, without waiting for more
        piece = read(_READ_BYTES)
        framing = framing or framing_of(piece)
        cutter = Cutter(framing)
        while piece:
            try:
                messages = cutter.feed(piece)
            except FrameError as error:
                msg = f"the file does not contain frames: {error}; {_IF_LINES}"
                raise RuntimeFailure(msg) from error
            yield _framed(messages, framing)
            piece = read(_READ_BYTES)
        if framing == "frames" and cutter.rest:
            msg = f"the file ends with an incomplete frame of {len(cutter.rest)} bytes; {_IF_LINES}"
            raise RuntimeFailure(msg)
        if cutter.rest:
            yield _framed([cutter.rest], framing)


def _framed(messages: list[bytes], framing: FramingName) -> list[bytes]:
    if framing == "lines":
        return [U32.frame(line.rstrip(b"\r\n")) for line in messages]
    return messages


def _paced(groups: Iterator[list[bytes]], rate: float | None) -> Iterator[tuple[int, bytes]]:
    """The size and the bytes of each burst, when it is time to send it."""
    started, sent = time.monotonic(), 0
    for messages in groups:
        if rate is None:
            yield len(messages), b"".join(messages)
            continue
        burst = max(1, int(rate * _PACE_S))
        for start in range(0, len(messages), burst):
            part = messages[start : start + burst]
            time.sleep(max(0.0, started + sent / rate - time.monotonic()))
            yield len(part), b"".join(part)
            sent += len(part)
