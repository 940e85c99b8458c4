"""`wallaroo send`: sends messages from a file or standard input to a source."""

from __future__ import annotations

import socket
import ssl
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click

from wallaroo.api.addresses import Address
from wallaroo.cli.option_types import ADDRESS, FILE, NumberType
from wallaroo.cli.streams import U32, Cutter, FramingName, TransferProgress, framing_of
from wallaroo.client import Sender
from wallaroo.errors import FrameError, RuntimeFailure, UsageError, reason_of
from wallaroo.run.settings import host_and_port
from wallaroo.run.user_output import reserved_stdout
from wallaroo.system.binding import unresolved
from wallaroo.system.tls import TLSFiles
from wallaroo.wire.framing import Framing
from wallaroo.wire.unframed import Delimited, FixedLength

_READ_BYTES = 256 * 1024
_IF_LINES = "if each line is a message, use --framing lines"
_PACE_S = 0.005
"""Seconds between the bursts in which messages are sent, if there is a rate."""
_CONNECT_TIMEOUT_S = 10.0


@click.command()
@click.argument("file", type=click.File("rb"))
@click.argument("app", required=False)
@click.option("--to", "to", type=ADDRESS, required=True, help="Address of the source.")
@click.option(
    "--framing",
    type=click.Choice(["frames", "lines", "raw"]),
    show_default="frames if FILE begins with one, otherwise lines; raw if APP's source takes "
    "neither",
    help="Format of FILE. frames: each has a big-endian 32-bit length, or the header that APP's "
    "source takes. lines: each line is a message, without its line ending. raw: FILE is sent "
    "unchanged; each line counts as one message.",
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
    app: str | None,
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

    Each message is sent as a frame with a big-endian 32-bit length. If the source takes anything
    else (lines, another header), name the application, APP: messages are sent as its source takes
    them.

    \b
    Example:
      wallaroo send README.md --to 127.0.0.1:7010
      wallaroo send lines.txt votes.py --to 127.0.0.1:7010
    """  # noqa: D301  (click reads \b)
    if repeat > 1 and not file.seekable():
        msg = "--repeat requires a file that can be read again, not a stream"
        raise click.UsageError(msg)
    tls = TLSFiles(tls_cert, tls_key, tls_ca).connecting()
    taken = _Taken() if app is None else _taken_by(app, int(to.port))
    messages = _messages(file, framing, repeat, taken, acked=stream is not None)
    if stream is None:
        _send_plain(to, tls, _paced(messages, rate))
    elif framing == "raw":
        msg = (
            "--acked requires messages, which --framing raw does not separate; use --framing lines"
        )
        raise click.UsageError(msg)
    else:
        _send_acked(to, tls, stream, _paced(messages, rate))


@dataclass(frozen=True)
class _Taken:
    """What a source takes from plain connections."""

    framing: Framing = U32
    unframed: Delimited | FixedLength | None = None

    @property
    def is_lines(self) -> bool:
        """Whether a line of text is one message, with or without a header."""
        return self.unframed is None or (
            isinstance(self.unframed, Delimited) and self.unframed.delimiter.endswith(b"\n")
        )

    def sent(self, payload: bytes) -> bytes:
        """*payload* as a message to the source."""
        if self.unframed is None:
            return self.framing.frame(payload)
        return payload + getattr(self.unframed, "delimiter", b"")


def _taken_by(app: str, port: int) -> _Taken:
    """What the source of *app* takes that listens on *port*; any, if all take the same.

    Raises:
        UsageError: The application does not exist or has no such source, or its sources differ.
        ApplicationError: It cannot be loaded.
    """
    from wallaroo.cli.options import application_without_addresses
    from wallaroo.connectors.tcp.resolve import TCPSource

    with reserved_stdout():
        application = application_without_addresses(app, ())
    listening = [one for one in application.sources if isinstance(one, TCPSource)]
    sources = [one for one in listening if one.port == port] or listening
    taken = {_Taken(one.framing, one.unframed) for one in sources}
    names = ", ".join(repr(one.name) for one in sources or application.sources)
    if not taken:
        msg = f"none of the sources of {application.name}, {names}, listens for TCP"
        raise UsageError(msg)
    if len(taken) > 1:
        msg = (
            f"the sources of {application.name}, {names}, take different messages, and none of "
            f"them has the port {port}: omit APP, and send what the source takes with --framing raw"
        )
        raise UsageError(msg)
    return taken.pop()


def _send_acked(
    to: Address, tls: ssl.SSLContext | None, stream: str, groups: Iterator[list[bytes]]
) -> None:
    address = host_and_port(to)
    progress = TransferProgress("sent")
    with Sender(address, stream, tls=tls) as sender:
        skip = sender.acknowledged
        if skip:
            print(f"{skip:,} messages of {stream!r} were already accepted", file=sys.stderr)
        try:
            for messages in groups:
                payloads = messages[skip:]
                skip -= len(messages) - len(payloads)
                for payload in payloads:
                    sender.send(payload)
                progress.add(len(payloads), sum(map(len, payloads)))
            sender.flush()
        except RuntimeFailure:
            progress.close()
            raise
    progress.close()


def _send_plain(to: Address, tls: ssl.SSLContext | None, groups: Iterator[list[bytes]]) -> None:
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
            for messages in groups:
                data = b"".join(messages)
                connection.sendall(data)
                progress.add(len(messages), len(data))
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


def _messages(
    file: BinaryIO, framing: FramingName | None, repeat: int, taken: _Taken, *, acked: bool
) -> Iterator[list[bytes]]:
    """The messages of *file* in groups, as they are sent; without a *framing*, its start tells it.

    Args:
        file: The file.
        framing: Its format.
        repeat: How often it is read.
        taken: What the source takes.
        acked: Whether payloads alone are sent, by the acknowledged protocol.
    """
    for repetition in range(repeat):
        if repetition:
            file.seek(0)
        read = getattr(file, "read1", file.read)  # reads what a pipe has, without waiting for more
        piece = read(_READ_BYTES)
        if framing is None:
            framing = framing_of(piece) if taken.is_lines or acked else "raw"
        cutter = Cutter(framing, taken.framing)
        while piece:
            try:
                messages = cutter.feed(piece)
            except FrameError as error:
                msg = f"the file does not contain frames: {error}; {_IF_LINES}"
                raise RuntimeFailure(msg) from error
            yield [_sent(one, framing, taken, acked=acked) for one in messages]
            piece = read(_READ_BYTES)
        if framing == "frames" and cutter.rest:
            msg = f"the file ends with an incomplete frame of {len(cutter.rest)} bytes; {_IF_LINES}"
            raise RuntimeFailure(msg)
        if cutter.rest:
            yield [_sent(cutter.rest, framing, taken, acked=acked)]


def _sent(message: bytes, framing: FramingName, taken: _Taken, *, acked: bool) -> bytes:
    """*message*, as it is in a file of *framing*, as it is sent; arguments as of `_messages`."""
    if framing == "raw" or (framing == "frames" and taken.unframed is None and not acked):
        return message
    header = taken.framing.header_length
    payload = message[header:] if framing == "frames" else message.rstrip(b"\r\n")
    try:
        return payload if acked else taken.sent(payload)
    except struct.error as error:
        msg = f"the source's header cannot hold the length of a message: {error}"
        raise RuntimeFailure(msg) from error


def _paced(groups: Iterator[list[bytes]], rate: float | None) -> Iterator[list[bytes]]:
    """Messages in bursts, each when it is time to send it."""
    started, sent = time.monotonic(), 0
    for messages in groups:
        if rate is None:
            yield messages
            continue
        burst = max(1, int(rate * _PACE_S))
        for start in range(0, len(messages), burst):
            part = messages[start : start + burst]
            time.sleep(max(0.0, started + sent / rate - time.monotonic()))
            yield part
            sent += len(part)
