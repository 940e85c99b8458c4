"""Sources of lines, of delimited messages, and of messages of one length, over real sockets."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from tests.connectors.tcp.test_source import connect, finish, is_closed
from tests.gateway.harness import RunningListener, source
from wallaroo.cli.main import main
from wallaroo.client import Sender
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.wire.framing import DEFAULT_MAX_FRAME
from wallaroo.wire.unframed import Delimited, FixedLength

FORMATS: dict[str, Delimited | FixedLength] = {
    "lines": Delimited(b"\n", DEFAULT_MAX_FRAME, ends_with_stream=True),
    "short": Delimited(b"\n", 10, ends_with_stream=True),
    "marked": Delimited(b"\r\n"),
    "triples": FixedLength(3),
    "bytes": FixedLength(1),
}
LINES, SHORT, MARKED, TRIPLES, BYTES = range(5)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningListener]:
    sources = [
        dataclasses.replace(source(name), unframed=unframed) for name, unframed in FORMATS.items()
    ]
    with RunningListener(tmp_path, sources) as listener:
        yield listener


def deliver(running: RunningListener, number: int, data: bytes) -> list[bytes]:
    """Messages of the source *number* after a connection that sent *data* and ended."""
    with connect(running, number) as connection:
        connection.sendall(data)
        finish(connection)
    running.wait_until_idle()
    return running.payloads(source=number)


def test_each_line_is_a_message_also_empty_ones_and_the_last(running: RunningListener) -> None:
    assert deliver(running, LINES, b"one\n\ntwo\r\nlast") == [b"one", b"", b"two\r", b"last"]


def test_a_message_without_its_own_delimiter_at_the_end_is_none(running: RunningListener) -> None:
    with capture_logs() as logs:
        assert deliver(running, MARKED, b"one\r\ntwo\nstill two\r\nha") == [
            b"one",
            b"two\nstill two",
        ]
    (closed,) = [entry for entry in logs if entry["event"] == "connection closed"]
    assert closed["reason"] == "the connection ended in mid-frame, 2 bytes after the last whole one"


def test_messages_of_one_length_need_no_header(running: RunningListener) -> None:
    assert deliver(running, TRIPLES, b"abcdefgh") == [b"abc", b"def"]


def test_a_message_that_looks_like_the_acknowledged_protocol_is_not_lost(
    running: RunningListener,
) -> None:
    assert deliver(running, BYTES, b"\xf7") == [b"\xf7"]


def test_a_line_over_the_limit_ends_its_connection_and_no_other(running: RunningListener) -> None:
    with capture_logs() as logs:
        for line in (b"0123456789x", b"0123456789x\nmore\n"):
            with connect(running, SHORT) as connection:
                connection.sendall(b"0123456789\n" + line)
                assert is_closed(connection)
        assert deliver(running, SHORT, b"fine") == [b"0123456789"] * 2 + [b"fine"]
    reasons = [entry["reason"] for entry in logs if entry["event"] == "connection closed"]
    assert reasons == ["a line of more than 10 bytes without its line feed"] * 2


def test_long_lines_come_in_pieces_of_any_size(running: RunningListener) -> None:
    lines = [bytes([65 + number]) * 700_000 for number in range(3)] + [b"x" * 5000, b"end"]
    stream = b"\n".join(lines)
    with connect(running, LINES) as connection:
        for start in range(0, len(stream), 1009):  # each piece is read by itself, or with others
            connection.sendall(stream[start : start + 1009])
        finish(connection)
    running.wait_until_idle()
    assert running.payloads(source=LINES) == lines


def test_a_stop_takes_whole_lines_and_a_last_one_only_of_ended_connections(
    running: RunningListener,
) -> None:
    with contextlib.ExitStack() as opened:
        ended, open_one = (opened.enter_context(connect(running, LINES)) for _ in range(2))
        open_one.sendall(b"whole\nhal")
        ended.sendall(b"begun")
        running.wait_for(1, source=LINES)
        ended.sendall(b" and ended")
        ended.shutdown(socket.SHUT_WR)
        running.loop.run(running.listener.stop())
        running.wait_until_idle()
        assert sorted(running.payloads(source=LINES)) == [b"begun and ended", b"whole"]


def test_senders_with_acknowledgements_reach_a_source_of_lines(running: RunningListener) -> None:
    host, port = running.addresses[LINES]
    with Sender(f"{host}:{port}", "stream") as sender:
        sender.send(b"two\nlines in one message")
        sender.flush()
    with Sender(f"{host}:{port}", "stream") as sender:
        assert sender.acknowledged == 1
        sender.send(b"next")
        sender.flush()
    assert running.payloads(source=LINES) == [b"two\nlines in one message", b"next"]


def test_send_sends_the_lines_of_a_file(running: RunningListener, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_bytes(b"one\ntwo\nthree")
    host, port = running.addresses[LINES]
    to = ("--to", f"{host}:{port}", "--framing", "raw")
    done = CliRunner().invoke(main, ["send", str(tmp_path / "lines.txt"), *to])
    assert done.exit_code == 0, done.output
    running.wait_until_idle()
    assert running.payloads(source=LINES) == [b"one", b"two", b"three"]


def test_a_full_journal_stops_reading_lines_and_none_is_lost(tmp_path: Path) -> None:
    lines = [b"%06d" % number + b"x" * 1000 for number in range(3000)]
    sources = [dataclasses.replace(source(), unframed=FORMATS["lines"])]
    with RunningListener(tmp_path, sources, JournalLimits(memory_bytes=100_000)) as running:
        with connect(running) as connection:
            connection.sendall(b"\n".join(lines))
            finish(connection)
        running.wait_until_idle()
        assert running.payloads() == lines
