"""The acknowledged protocol over real sockets: exactly once, whatever breaks and is sent again."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.connectors.tcp.speaker import Speaker, messages
from tests.gateway.harness import U32, RunningListener, source
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.connectors.tcp import acknowledged as module
from wallaroo.connectors.tcp.drain import CONNECTION_BYTES
from wallaroo.gateway.journal import stream_positions
from wallaroo.gateway.journal.stream_positions import Opener, StreamName
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.store import Store
from wallaroo.wire.acknowledged import (
    PREAMBLE,
    Ack,
    Frame,
    FrameCutter,
    Hello,
    Messages,
    Refusal,
    Welcome,
    check_stream,
    encode,
)
from wallaroo.wire.framing import Framing


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningListener]:
    with RunningListener(tmp_path, [source(), source("short", Framing(1, ">B"))]) as made:
        yield made


def test_a_new_stream_begins_with_number_one(running: RunningListener) -> None:
    with Speaker(running.addresses[0]) as speaker:
        assert speaker.hear() == Welcome(1, 0, module.WINDOW)
        speaker.send(1, b"a", b"", b"ccc")
        speaker.acknowledged(3)
        assert running.payloads() == [b"a", b"", b"ccc"]


def test_messages_are_journalled_in_the_sources_own_frames(running: RunningListener) -> None:
    with Speaker(running.addresses[1]) as speaker:
        speaker.send(1, b"a", b"bb")
        speaker.acknowledged(2)
        assert running.payloads(source=1) == [b"a", b"bb"]
        speaker.send(3, bytes(256))
        assert "a message that the source's frames do not hold" in speaker.refused()


def test_a_source_whose_headers_a_function_reads_gets_frames_that_it_reads(
    tmp_path: Path,
) -> None:
    framing = Framing(6, lambda header: int(header.decode()))
    with RunningListener(tmp_path, [source(), source("decimal", framing)]) as made:
        with Speaker(made.addresses[1]) as speaker:
            speaker.send(1, b"a", b"bb")
            speaker.acknowledged(2)
        end = made.journal.end
        data = [block.data for block in made.journal.read(0, end)]
        assert data == [b"000001a000002bb"]


def test_a_message_that_the_sources_headers_cannot_announce_is_refused(tmp_path: Path) -> None:
    framing = Framing(2, lambda header: header[0] - 300)
    with (
        RunningListener(tmp_path, [source(), source("odd", framing)]) as made,
        Speaker(made.addresses[1]) as speaker,
    ):
        speaker.send(1, b"a")
        assert "gets a length of 1 bytes from no binary or decimal header" in speaker.refused()


def test_a_stream_goes_on_behind_what_is_on_disk(running: RunningListener) -> None:
    with Speaker(running.addresses[0]) as speaker:
        speaker.send(1, b"a", b"b")
        speaker.acknowledged(2)
    with Speaker(running.addresses[0]) as speaker:
        assert speaker.hear() == Welcome(1, 2, 2 + module.WINDOW)
        speaker.send(3, b"c")
        speaker.acknowledged(3)
    assert running.payloads() == [b"a", b"b", b"c"]


def test_what_is_sent_again_is_dropped(running: RunningListener) -> None:
    with Speaker(running.addresses[0]) as speaker:
        speaker.send(1, b"a", b"b")
        speaker.send(1, b"a", b"b")
        speaker.send(2, b"b", b"c")
        speaker.send(3, b"c")
        speaker.send(1, b"a", b"b", b"c", b"d")
        speaker.acknowledged(4)
    assert running.payloads() == [b"a", b"b", b"c", b"d"]


def test_a_stream_outlives_the_gateway(tmp_path: Path) -> None:
    for first in (1, 3):
        with RunningListener(tmp_path, [source()]) as running:
            with Speaker(running.addresses[0]) as speaker:
                welcome = speaker.hear()
                assert isinstance(welcome, Welcome)
                assert welcome.last == first - 1
                speaker.send(first, b"%d" % first, b"%d" % (first + 1))
                speaker.acknowledged(first + 1)
            payloads = running.payloads()
    assert payloads == [b"1", b"2", b"3", b"4"]


def test_a_connection_that_breaks_in_mid_frame_loses_and_doubles_nothing(
    running: RunningListener,
) -> None:
    cut = encode(messages(2, b"b", b"c"))
    with Speaker(running.addresses[0]) as speaker:
        speaker.send(1, b"a")
        speaker.acknowledged(1)
        speaker.socket.sendall(cut[:-1])
    with Speaker(running.addresses[0]) as speaker:
        speaker.acknowledged(1)
        speaker.send(2, b"b", b"c")
        speaker.acknowledged(3)
    assert running.payloads() == [b"a", b"b", b"c"]


def test_streams_and_sources_have_numbers_of_their_own(running: RunningListener) -> None:
    with (
        Speaker(running.addresses[0], "one") as one,
        Speaker(running.addresses[0], "two") as two,
        Speaker(running.addresses[1], "one") as other,
    ):
        for number, speaker in enumerate((one, two, other)):
            speaker.send(1, b"%d" % number)
            speaker.acknowledged(1)
    assert running.payloads() == [b"0", b"1"]
    assert running.payloads(source=1) == [b"2"]


def test_a_stream_that_is_opened_again_leaves_its_old_connection(running: RunningListener) -> None:
    with Speaker(running.addresses[0]) as old:
        old.send(1, b"a")
        old.acknowledged(1)
        with Speaker(running.addresses[0]) as new:
            new.acknowledged(1)
            assert old.refused() == "the stream 's' was opened on a new connection"
            new.send(2, b"b")
            new.acknowledged(2)


def test_plain_and_acknowledged_connections_share_a_port(running: RunningListener) -> None:
    with (
        Speaker(running.addresses[0]) as speaker,
        socket.create_connection(running.addresses[0]) as plain,
    ):
        plain.sendall(U32.frame(b"plain"))
        running.wait_for(1)
        speaker.send(1, b"acked")
        speaker.acknowledged(1)
    assert running.payloads() == [b"plain", b"acked"]


def test_a_sender_that_sends_a_byte_at_a_time_is_understood(running: RunningListener) -> None:
    with socket.create_connection(running.addresses[0]) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in PREAMBLE + encode(Hello(1, "slow")) + encode(messages(1, b"a")):
            connection.sendall(bytes([byte]))
        running.wait_for(1)
    assert running.payloads() == [b"a"]


def test_credit_ends_while_the_journal_is_full_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WINDOW", 2)
    with (
        RunningListener(tmp_path, [source()], JournalLimits(disk_bytes=100)) as running,
        Speaker(running.addresses[0]) as speaker,
    ):
        assert speaker.hear() == Welcome(1, 0, 2)
        speaker.send(1, bytes(60), bytes(60))
        assert speaker.hear() == Ack(2, 2)
        running.journal.consume(2)
        assert speaker.hear() == Ack(2, 4)


def test_what_reached_the_machine_is_acknowledged_at_a_stop(running: RunningListener) -> None:
    with Speaker(running.addresses[0]) as speaker:
        speaker.acknowledged(0)
        speaker.send(1, *[b"x"] * 1000)
        running.stop()
        speaker.acknowledged(1000)
        running.loop.run(running.listener.close())
        assert speaker.socket.recv(1) == b""


def test_a_sender_that_never_pauses_does_not_hold_up_a_stop(
    running: RunningListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel always has more of it: each read is followed by a send."""
    read, again = os.readv, encode(messages(1, bytes(60_000)))  # which is dropped when it is known
    taken: list[int] = []
    waiting = bytearray()

    def read_and_refill(file: int, room: Any) -> int:
        count = read(file, room)
        taken.append(count)
        if len(taken) < 2000:
            refill()
        return count

    def refill() -> None:
        waiting.extend(again * 4)
        with contextlib.suppress(BlockingIOError):
            while waiting:
                del waiting[: speaker.socket.send(waiting)]

    async def send_and_stop() -> None:
        refill()
        monkeypatch.setattr(os, "readv", read_and_refill)
        await running.listener.stop()

    with Speaker(running.addresses[0]) as speaker:
        speaker.acknowledged(0)
        speaker.socket.setblocking(False)
        running.loop.run(send_and_stop())
    assert 0 < sum(taken) < 2 * CONNECTION_BYTES


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([messages(2, b"b")], "message 2; expected 1"),
        ([messages(0, b"b")], "message 0; expected 1"),
        ([messages(1, *[b""] * (module.WINDOW + 1))], "and the credit ends with 65536"),
        ([Messages(1, b"\0\0\0\5abc")], "messages that do not end with their frame"),
        ([Messages(1, b"")], "messages that do not end with their frame"),
        ([Messages(1, b"\xff\xff\xff\xff")], "a frame of 4294967295 bytes; the limit is"),
        ([Hello(1, "t")], "a Hello frame out of place"),
        ([Ack(1, 1)], "a Ack frame out of place"),
    ],
)
def test_what_breaks_the_protocol_is_refused_with_a_sentence(
    running: RunningListener, frames: list[Frame], reason: str
) -> None:
    with Speaker(running.addresses[0]) as speaker:
        speaker.say(*frames)
        assert reason in speaker.refused()
    assert running.payloads() == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encode(Hello(0, "s")), "version 0 of the protocol; this gateway speaks 1 to 1"),
        (encode(Hello(1, "")), "'' is not a valid stream name"),
        (encode(Hello(1, "a\nb")), "is not a valid stream name"),
        (encode(Hello(1, "x" * 201)), "is not a valid stream name"),
        (encode(messages(1, b"a")), "a Messages frame out of place"),
        (b"GET / HTTP/1.1\r\n", "a frame of 1195725856 bytes"),
        (struct.pack(">IB", 1, 99), "a frame of kind 99, which version 1 does not have"),
        (struct.pack(">IBB", 2, 1, 0), "a frame of kind 1 that cannot be read"),
        (struct.pack(">IBHHc", 6, 1, 1, 2, b"x"), "a stream name of 2 bytes, and 1 are there"),
    ],
)
def test_what_is_no_hello_is_refused_with_a_sentence(
    running: RunningListener, data: bytes, reason: str
) -> None:
    with Speaker(running.addresses[0], None) as speaker:
        speaker.socket.sendall(data)
        assert reason in speaker.refused()


def test_a_later_version_is_answered_with_ours(running: RunningListener) -> None:
    with Speaker(running.addresses[0], None) as speaker:
        speaker.say(Hello(7, "s"))
        assert speaker.hear() == Welcome(1, 0, module.WINDOW)


def test_streams_without_end_are_refused_and_cost_nothing(tmp_path: Path) -> None:
    limits = JournalLimits(streams=4)
    with RunningListener(tmp_path, [source()], limits) as running:
        for name in ("one", "two"):
            with Speaker(running.addresses[0], name) as speaker:
                speaker.send(1, b"a")
                speaker.acknowledged(1)
        with Speaker(running.addresses[0], "three") as speaker:
            assert "stream 'three' exceeds the limit" in speaker.refused()
        with Speaker(running.addresses[0], "two") as speaker:
            speaker.acknowledged(1)


def test_a_stream_that_is_open_is_not_forgotten_however_long_it_was_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("open", "closed", "other")
    openers = [Opener(None, address) for address in ("there", "there", "elsewhere")]
    a_day_ago = time.time_ns() - 24 * 3600 * 10**9
    store = Store(tmp_path)
    journal = store.journal
    monkeypatch.setattr(stream_positions, "time", SimpleNamespace(time_ns=lambda: a_day_ago))
    for number, (name, opener) in enumerate(zip(names, openers, strict=True)):
        journal.stream_positions.open(StreamName(0, name), opener)
        journal.submit(0, 1, U32.frame(b"m"), (StreamName(0, name), 7 + number))
    assert journal.flush(PATIENCE_S)
    store.close()
    monkeypatch.undo()
    with (
        RunningListener(tmp_path, [source()], JournalLimits(streams=3)) as running,
        Speaker(running.addresses[0], "open") as speaker,
    ):
        speaker.acknowledged(7)
        with Speaker(running.addresses[0], "new") as newcomer:
            newcomer.acknowledged(0)
        remembered = running.journal.stream_positions.last
        assert [remembered(StreamName(0, name)) for name in names] == [7, 0, 9]


def test_a_stream_without_messages_is_not_remembered(tmp_path: Path) -> None:
    with RunningListener(tmp_path, [source()], JournalLimits(streams=2)) as running:
        for name in ("one", "two", "three"):
            with Speaker(running.addresses[0], name) as speaker:
                speaker.acknowledged(0)
            wait_until(lambda: not running.listener.connections, "the end of the connection")


FRAMES = st.one_of(
    st.builds(Hello, st.integers(0, 2**16 - 1), st.text(max_size=50)),
    st.builds(Welcome, st.integers(0, 9), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
    st.builds(Messages, st.integers(0, 2**64 - 1), st.binary(max_size=300)),
    st.builds(Ack, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
    st.builds(Refusal, st.text(max_size=50)),
)


@given(st.lists(FRAMES), st.lists(st.integers(1, 40)))
def test_frames_are_cut_however_they_come(frames: list[Frame], sizes: list[int]) -> None:
    data = b"".join(map(encode, frames))
    cutter, found = FrameCutter(1 << 20), list[Frame]()
    for size in sizes:
        found += cutter.feed(data[:size])
        data = data[size:]
    assert found + cutter.feed(data) == frames


@given(st.text())
def test_a_stream_name_is_taken_or_refused(name: str) -> None:
    if check_stream(name) is None:
        assert 0 < len(name.encode()) <= 200


@pytest.mark.parametrize("length", [0, 2**32 - 1])
def test_a_length_that_no_frame_has_is_refused_before_anything_follows(
    running: RunningListener, length: int
) -> None:
    with Speaker(running.addresses[0], stream=None) as speaker:
        speaker.socket.sendall(struct.pack(">I", length))
        assert speaker.refused().startswith(f"a frame of {length} bytes, and 1 to ")
