"""`wallaroo send` and `wallaroo receive` over real sockets."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import PATIENCE_S, wait_until
from wallaroo.cli.main import main
from wallaroo.cli.streams import Cutter, FramingName
from wallaroo.wire.framing import Framing
from wallaroo.wire.numbered import sequenced

U32 = Framing(4, ">I")


class Source:
    """Takes one connection, to its end."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE_S)
        self.address = "{}:{}".format(*self._listener.getsockname())
        self.taken = b""
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            while piece := connection.recv(1 << 18):
                self.taken += piece

    def close(self) -> None:
        self._thread.join(PATIENCE_S)
        self._listener.close()


@pytest.fixture
def source() -> Iterator[Source]:
    made = Source()
    yield made
    made.close()


def send(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["send", *arguments], input=stdin)


class Receiving:
    """A `wallaroo receive` in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        # a process that was started in the background ignores SIGINT, and its children do, too
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "wallaroo", "receive", "--listen", "127.0.0.1:0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stderr is not None
        told = self.process.stderr.readline().decode()
        self.address = "127.0.0.1", int(told.rsplit(":", 1)[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, PATIENCE_S)

    def end(self) -> tuple[int, bytes, str]:
        """Exit code, standard output and standard error."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, err.decode()


def test_frames_are_sent_as_they_are_and_counted(source: Source, tmp_path: Path) -> None:
    frames = U32.frame(b"one") + U32.frame(b"") + U32.frame(b"three")
    (tmp_path / "frames").write_bytes(frames)
    result = send(str(tmp_path / "frames"), "--to", source.address)
    source.close()
    assert result.exit_code == 0
    assert source.taken == frames
    assert re.search(r"sent 3 messages, 20 bytes in .* s, [\d,]+ messages/s", result.output)


def test_lines_are_sent_as_frames_without_their_ends(source: Source) -> None:
    result = send("-", "--to", source.address, stdin=b"a\nb\r\n\n\xc3\xa9 last")
    source.close()
    assert result.exit_code == 0
    assert source.taken == b"".join(map(U32.frame, [b"a", b"b", b"", b"\xc3\xa9 last"]))
    assert "sent 4 messages" in result.output


def test_raw_bytes_are_sent_as_they_are(source: Source) -> None:
    result = send("-", "--to", source.address, "--framing", "raw", stdin=b"\0\1\2 no frames")
    source.close()
    assert result.exit_code == 0
    assert source.taken == b"\0\1\2 no frames"


def test_lines_that_are_sent_raw_count_as_messages(source: Source) -> None:
    result = send("-", "--to", source.address, "--framing", "raw", stdin=b"one\ntwo\nthr")
    source.close()
    assert source.taken == b"one\ntwo\nthr"
    assert "sent 3 messages" in result.output


APPLICATION = """
import wallaroo

@wallaroo.decoder(header_length=2, length_fmt=">H")
def short(payload):
    return payload

@wallaroo.decoder(header_length=3, length_fmt=lambda header: int(header))
def digits(payload):
    return payload

def application_setup(args):
    builder = wallaroo.ApplicationBuilder("Taking")
    for number, options in enumerate({sources}):
        options = {{"decoder": bytes.decode, **options}}
        source = wallaroo.TCPSourceConfig("127.0.0.1", options.pop("port", 7), **options)
        builder.new_pipeline(f"p{{number}}", source).done()
    return builder.build()
"""


def application(directory: Path, *sources: str) -> str:
    """An application whose sources have these options."""
    file = directory / "taking.py"
    file.write_text(APPLICATION.format(sources=f"[{', '.join(sources)}]"))
    return str(file)


@pytest.mark.parametrize(
    ("options", "stdin", "taken"),
    [
        ("dict(framing='lines')", b"a\r\nb", b"a\nb\n"),
        ("dict(framing='lines')", U32.frame(b"a") + U32.frame(b"b"), b"a\nb\n"),
        ("dict(framing=b'\\r\\n')", b"a\nb\n", b"a\r\nb\r\n"),
        ("dict(framing=b';')", b"a;b\n;", b"a;b\n;"),
        ("dict(framing=2)", b"abcd\n\n", b"abcd\n\n"),
        ("dict(decoder=short)", b"a\nbc\n", b"\0\1a\0\2bc"),
        ("dict(decoder=short)", b"\0\1a\0\2bc", b"\0\1a\0\2bc"),
        ("dict(decoder=digits)", b"a\nbc\n", b"001a002bc"),
    ],
)
def test_messages_are_sent_as_the_source_of_an_application_takes_them(
    options: str, stdin: bytes, taken: bytes, source: Source, tmp_path: Path
) -> None:
    result = send("-", application(tmp_path, options), "--to", source.address, stdin=stdin)
    source.close()
    assert (result.exit_code, source.taken) == (0, taken), result.output


def test_the_port_selects_the_source(source: Source, tmp_path: Path) -> None:
    port = source.address.partition(":")[2]
    app = application(tmp_path, "dict(framing='lines')", f"dict(decoder=short, port={port})")
    result = send("-", app, "--to", source.address, stdin=b"a\n")
    source.close()
    assert (result.exit_code, source.taken) == (0, b"\0\1a"), result.output


def test_a_line_that_the_source_cannot_take_is_told(source: Source, tmp_path: Path) -> None:
    app = application(tmp_path, "dict(decoder=short)")
    result = send("-", app, "--to", source.address, stdin=b"a" * 2**16)
    assert result.exit_code == 1
    assert "the source's header cannot hold the length of a message: " in result.output


def test_a_file_is_sent_as_often_as_asked(source: Source, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("to\nbe")
    result = send(
        str(tmp_path / "lines"), "--to", source.address, "--framing", "lines", "--repeat", "3"
    )
    source.close()
    assert source.taken == b"".join(map(U32.frame, [b"to", b"be"] * 3))
    assert "sent 6 messages" in result.output


def test_with_a_rate_everything_is_sent_all_the_same(source: Source) -> None:
    lines = b"".join(b"%d\n" % number for number in range(500))
    result = send(
        "-", "--to", source.address, *("--framing", "lines", "--rate", "5000"), stdin=lines
    )
    source.close()
    assert result.exit_code == 0
    assert U32.split(source.taken) == lines.split()


def test_a_stream_cannot_be_repeated() -> None:
    with subprocess.Popen(
        [*(sys.executable, "-m", "wallaroo", "send", "-"), *("--to", "h:1", "--repeat", "2")],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as sending:
        _, err = sending.communicate(timeout=PATIENCE_S)
    assert sending.returncode == 2
    assert b"--repeat requires a file that can be read again" in err


def test_a_source_that_does_not_listen_is_told() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*unused.getsockname())
        result = send("-", "--to", address, stdin=b"")
    assert result.exit_code == 1
    assert f"cannot connect to {address}: " in result.output
    assert "is the source listening?" in result.output


@pytest.mark.parametrize(
    ("stdin", "said"),
    [
        (U32.frame(b"whole") + b"\0\0\0\7cut", "the file ends with an incomplete frame of 7 bytes"),
        (b"\xff\xff\xff\xff no frames", "the file does not contain frames"),
    ],
)
def test_a_file_that_holds_no_whole_frames_is_told(source: Source, stdin: bytes, said: str) -> None:
    result = send("-", "--to", source.address, "--framing", "frames", stdin=stdin)
    assert result.exit_code == 1
    assert said in result.output
    assert "if each line is a message, use --framing lines" in result.output


def test_a_file_that_is_not_there_is_told() -> None:
    result = send("no-such-file", "--to", "127.0.0.1:1")
    assert result.exit_code == 2
    assert "no-such-file" in result.output


@pytest.mark.parametrize("command", [["send", "-", "--to"], ["receive", "--listen"]])
def test_a_bad_address_is_told(command: list[str]) -> None:
    result = CliRunner().invoke(main, [*command, "nonsense"])
    assert result.exit_code == 2
    assert f"'{command[-1]}': 'nonsense' is not an address" in result.output


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "{}:{}".format(*taken.getsockname())
        result = CliRunner().invoke(main, ["receive", "--listen", address])
    assert result.exit_code == 1
    assert f"cannot listen on {address}: " in result.output
    assert (
        "choose another address with --listen, or stop the process that is using it"
        in result.output
    )


def test_lines_are_received_to_standard_output_until_the_count_is_there() -> None:
    with Receiving("--count", "3") as receiving, receiving.connect() as connection:
        connection.sendall(b"to => 1\nbe => ")
        connection.sendall(b"1\nor => 1\nnot => 1\n")
        code, out, err = receiving.end()
    assert (code, out) == (0, b"to => 1\nbe => 1\nor => 1\n")
    assert re.search(r"received 3 messages, 24 bytes in .* s", err)


def test_frames_are_received_to_a_file_from_several_connections(tmp_path: Path) -> None:
    file = tmp_path / "received"
    with Receiving("--framing", "frames", "--count", "4", "--to", str(file)) as receiving:
        for number in range(2):
            with receiving.connect() as connection:
                connection.sendall(U32.frame(b"%d" % number) + U32.frame(b""))
        code, out, _ = receiving.end()
    assert (code, out) == (0, b"")
    assert sorted(U32.split(file.read_bytes())) == [b"", b"", b"0", b"1"]


def test_a_file_has_what_has_arrived_while_more_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "received"
    with Receiving("--to", str(file)) as receiving, receiving.connect() as connection:
        connection.sendall(b"one\n")
        wait_until(lambda: file.exists() and file.read_bytes() == b"one\n")


def test_an_interrupted_receiver_tells_what_it_has() -> None:
    with Receiving("--framing", "raw", "--to", "-") as receiving:
        with receiving.connect() as connection:
            connection.sendall(b"bytes")
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""  # it has taken everything
        receiving.process.send_signal(signal.SIGINT)
        code, _, err = receiving.end()
    assert code == 0
    assert "received 1 message, 5 bytes" in err


def test_a_last_line_needs_no_end() -> None:
    with Receiving("--count", "2") as receiving:
        with receiving.connect() as connection:
            connection.sendall(b"one\ntwo")
        code, out, _ = receiving.end()
    assert (code, out) == (0, b"one\ntwo")


def test_a_terminated_receiver_tells_what_it_has_and_what_was_cut_off() -> None:
    with Receiving("--framing", "frames") as receiving:
        with receiving.connect() as connection:
            connection.sendall(U32.frame(b"whole") + U32.frame(b"cut off")[:-2])
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
        receiving.process.send_signal(signal.SIGTERM)
        code, _, err = receiving.end()
    assert code == 0
    assert "received 1 message, 9 bytes" in err
    assert "an incomplete frame of 9 bytes" in err


def test_bytes_that_are_no_frames_end_their_connection_alone() -> None:
    with Receiving("--framing", "frames", "--count", "1") as receiving:
        with receiving.connect() as bad:
            bad.sendall(b"\xff\xff\xff\xff")
            assert bad.recv(1) == b""
        with receiving.connect() as good:
            good.sendall(U32.frame(b"good"))
            code, _, err = receiving.end()
    assert code == 0
    assert "connection closed: " in err


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["lines", "frames"]),
    st.lists(st.binary(max_size=20).filter(lambda text: b"\n" not in text), max_size=10),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_any_split_of_a_stream_into_pieces_gives_the_same_messages(
    framing: FramingName, texts: list[bytes], sizes: list[int]
) -> None:
    messages = [U32.frame(text) if framing == "frames" else text + b"\n" for text in texts]
    cutter, got, stream = Cutter(framing), list[bytes](), b"".join(messages)
    position = turn = 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        got += cutter.feed(stream[position : position + size])
        position, turn = position + size, turn + 1
    assert got == messages
    assert cutter.rest == b""


def test_receive_drops_what_comes_again() -> None:
    name = sequenced(0, [b"numbering"])
    with Receiving("--sequenced", "--count", "3") as receiving:
        for data in (name + sequenced(1, [b"a\n", b"b\n"]), name + sequenced(2, [b"b\n", b"c\n"])):
            with socket.create_connection(receiving.address) as connection:
                connection.sendall(data)
        output, told = receiving.process.communicate(timeout=PATIENCE_S)
    assert output == b"a\nb\nc\n"
    assert b"received 3 messages" in told
