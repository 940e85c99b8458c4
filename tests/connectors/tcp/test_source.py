"""Sources over real sockets: frames however they come, and connections that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.gateway.harness import U32, RunningListener, source
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.connectors.tcp import source as module
from wallaroo.connectors.tcp.acknowledged import WINDOW
from wallaroo.connectors.tcp.drain import CONNECTION_BYTES, Drain
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.journal.stream_positions import StreamName
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.limits import SourceLimits
from wallaroo.wire.acknowledged import PAYLOADS, PREAMBLE, Ack, Hello, Messages, encode
from wallaroo.wire.framing import Framing

FORMATS = [Framing(2, ">H"), Framing(4, "<I"), Framing(1, "B"), Framing(8, ">Q"), U32]
SMALL = Framing(4, ">I", max_frame=1000)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningListener]:
    with RunningListener(tmp_path, [source("lines", SMALL), source("more")]) as listener:
        yield listener


@pytest.fixture(scope="module")
def every_format(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningListener]:
    sources = [source(f"in {number}", framing) for number, framing in enumerate(FORMATS)]
    with RunningListener(tmp_path_factory.mktemp("formats"), sources) as listener:
        yield listener


def connect(running: RunningListener, number: int = 0) -> socket.socket:
    connection = socket.create_connection(running.addresses[number], PATIENCE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def is_closed(connection: socket.socket) -> bool:
    """Wait until the other side has closed *connection*."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def finish(connection: socket.socket) -> None:
    """End the stream, and wait until the other side has taken it."""
    connection.shutdown(socket.SHUT_WR)
    assert is_closed(connection)


def peer_of(connection: socket.socket) -> str:
    host, port = connection.getsockname()
    return f"{host}:{port}"


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(0, len(FORMATS) - 1),
    st.lists(st.binary(max_size=30) | st.just(b"equal"), max_size=30),
    st.lists(st.integers(1, 60), min_size=1, max_size=6),
)
def test_any_split_of_a_stream_into_sends_gives_the_same_messages(
    every_format: RunningListener, number: int, payloads: list[bytes], sizes: list[int]
) -> None:
    start = every_format.journal.end
    stream = b"".join(map(FORMATS[number].frame, payloads))
    with connect(every_format, number) as connection:
        position = turn = 0
        while position < len(stream):
            size = sizes[turn % len(sizes)]
            connection.send(stream[position : position + size])
            position, turn = position + size, turn + 1
        finish(connection)
    every_format.wait_until_idle()
    assert every_format.payloads(start, number) == payloads


def read_length(header: bytes) -> int:
    if header[:1] == b"!":
        msg = "headers begin with a digit"
        raise ValueError(msg)
    return int(header)


def test_a_header_that_the_decoders_function_refuses_closes_its_connection(tmp_path: Path) -> None:
    sources = [source(framing=Framing(2, read_length, max_frame=50))]
    with RunningListener(tmp_path, sources) as running, capture_logs() as logs:
        for bad in (b"!x", b"-1", b"51", b"0x"):
            with connect(running) as connection:
                connection.sendall(b"02ab00" + bad + b"02ab")
                assert is_closed(connection)
        with connect(running) as connection:
            connection.sendall(b"03abc")
            finish(connection)
        running.wait_until_idle()
        assert running.payloads() == [b"ab", b""] * 4 + [b"abc"]
    assert [entry["reason"] for entry in logs if entry["event"] == "connection closed"] == [
        "payload_length(b'!x'): ValueError: headers begin with a digit",
        "a frame of -1 bytes; the limit is 50",
        "a frame of 51 bytes; the limit is 50",
        "payload_length(b'0x'): ValueError: invalid literal for int() with base 10: b'0x'",
    ]


def test_four_senders_at_once_keep_each_their_order(running: RunningListener) -> None:
    def send(sender: int) -> None:
        with connect(running, 1) as connection:
            for number in range(500):
                connection.sendall(U32.frame(f"{sender} {number}".encode()))

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    running.wait_for(2_000, source=1)
    payloads = running.payloads(source=1)
    for sender in range(4):
        mark = f"{sender} ".encode()
        own = [payload for payload in payloads if payload.startswith(mark)]
        assert own == [mark + str(number).encode() for number in range(500)]


def test_messages_are_numbered_over_all_sources_in_order_of_arrival(
    running: RunningListener,
) -> None:
    with connect(running, 0) as one, connect(running, 1) as other:
        for number in range(1, 6):
            one.sendall(SMALL.frame(b"one"))
            running.wait_for(number, source=0)
            other.sendall(U32.frame(b"other"))
            running.wait_for(number, source=1)
    blocks = running.journal.read(0, 10)
    assert [(block.first, block.source) for block in blocks] == [(n, n % 2) for n in range(10)]


def test_a_connection_cut_in_mid_frame_counts_up_to_the_cut(running: RunningListener) -> None:
    with capture_logs() as logs:
        with connect(running) as connection:
            peer = peer_of(connection)
            connection.sendall(SMALL.frame(b"whole") + SMALL.frame(b"cut off")[:7])
            finish(connection)
        running.wait_until_idle()
    assert running.payloads() == [b"whole"]
    (event,) = logs
    assert (event["event"], event["source"], event["peer"]) == ("connection closed", "lines", peer)
    assert event["reason"] == (
        "the connection ended in mid-frame, 7 bytes after the last whole one"
    )
    assert event["messages"] == 1


def test_a_connection_that_ends_after_a_frame_is_not_worth_a_word(running: RunningListener) -> None:
    with capture_logs() as logs:
        with connect(running) as connection:
            connection.sendall(SMALL.frame(b"whole"))
            finish(connection)
        running.wait_until_idle()
    assert logs == []


def test_a_reset_connection_is_told_once_and_its_messages_count(running: RunningListener) -> None:
    with capture_logs() as logs:
        with connect(running) as connection:
            connection.sendall(SMALL.frame(b"whole"))
            running.wait_for(1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        running.wait_until_idle()
    assert running.payloads() == [b"whole"]
    assert [event["event"] for event in logs] == ["connection closed"]


def test_a_frame_over_the_limit_closes_its_connection_alone(running: RunningListener) -> None:
    with capture_logs() as logs, connect(running) as good, connect(running) as bad:
        peer = peer_of(bad)
        bad.sendall(SMALL.frame(b"before") + struct.pack(">I", 1001))
        assert is_closed(bad)
        good.sendall(SMALL.frame(b"good"))
        running.wait_for(2)
    assert sorted(running.payloads()) == [b"before", b"good"]
    (event,) = logs
    assert event["log_level"] == "warning"
    assert (event["source"], event["peer"]) == ("lines", peer)
    assert event["reason"] == "a frame of 1001 bytes; the limit is 1000"


def test_a_frame_of_exactly_the_limit_is_accepted(running: RunningListener) -> None:
    with connect(running) as connection:
        connection.sendall(SMALL.frame(b"x" * 1000))
        running.wait_for(1)


def test_bytes_that_are_no_frames_close_the_connection(running: RunningListener) -> None:
    with capture_logs() as logs, connect(running) as connection:
        connection.sendall(b"EHLO example.org\r\n")
        assert is_closed(connection)
    running.wait_until_idle()
    assert running.payloads() == []
    assert [event["source"] for event in logs] == ["lines"]


def test_a_zero_length_payload_is_a_message(running: RunningListener) -> None:
    with connect(running) as connection:
        connection.sendall(SMALL.frame(b"") * 3 + SMALL.frame(b"x") + SMALL.frame(b""))
        running.wait_for(5)
    assert running.payloads() == [b"", b"", b"", b"x", b""]


def test_large_frames_in_pieces_mix_with_those_of_other_connections(
    running: RunningListener,
) -> None:
    rng = random.Random(7)
    large = [rng.randbytes(size) for size in (700_000, 262_141, 262_140, 3_000_000, 5)]
    stream = b"".join(map(U32.frame, large)) + U32.frame(b"last")
    with connect(running, 1) as connection, connect(running, 1) as other:
        position = sent = 0
        while position < len(stream):
            size = rng.randint(1, 200_000)
            connection.sendall(stream[position : position + size])
            position += size
            other.sendall(U32.frame(b"small %d" % sent) + U32.frame(b"cut in two")[:5])
            other.sendall(U32.frame(b"cut in two")[5:])
            sent += 1
        running.wait_for(len(large) + 1 + 2 * sent, source=1)
    payloads = running.payloads(source=1)
    own = [p for p in payloads if not p.startswith((b"small", b"cut"))]
    assert own == [*large, b"last"]
    assert [p for p in payloads if p.startswith(b"small")] == [b"small %d" % n for n in range(sent)]


def test_a_large_frame_cut_off_is_told_with_its_bytes(running: RunningListener) -> None:
    with capture_logs() as logs:
        with connect(running, 1) as connection:
            connection.sendall(U32.frame(bytes(400_000))[:300_000])
            finish(connection)
        running.wait_until_idle()
    assert ["300000 bytes after" in event["reason"] for event in logs] == [True]


def test_a_full_journal_holds_senders_back_until_it_is_trimmed(tmp_path: Path) -> None:
    limits = JournalLimits(disk_bytes=100_000, memory_bytes=50_000)
    frame = U32.frame(bytes(10_000))
    with RunningListener(tmp_path, [source()], limits) as running, connect(running) as connection:
        connection.setblocking(False)
        left = frame

        def send_what_goes() -> int:
            nonlocal left
            sent = 0
            while True:
                try:
                    taken = connection.send(left)
                except BlockingIOError:
                    return sent
                sent += taken
                left = left[taken:] or frame

        def make_room() -> int:
            running.journal.consume(running.journal.end)
            return send_what_goes()

        wait_until(lambda: running.journal.disk_bytes >= limits.disk_bytes or not send_what_goes())
        total = 0
        wait_until(lambda: running.listener.paused)
        while (more := send_what_goes()) > 0:  # the buffers of the kernel
            total += more
        assert running.journal.flush(PATIENCE_S)
        held = running.journal.disk_bytes
        assert held < limits.disk_bytes + limits.memory_bytes + 2 * 256 * 1024
        wait_until(make_room, "room for the sender")


def test_a_connection_that_comes_while_the_journal_is_full_waits_too(tmp_path: Path) -> None:
    limits = JournalLimits(disk_bytes=1_000, memory_bytes=1_000)
    with RunningListener(tmp_path, [source()], limits) as running:
        with connect(running) as first, connect(running) as second:
            first.sendall(U32.frame(bytes(2_000)))
            running.wait_for(1)
            second.sendall(U32.frame(b"second"))
            with connect(running) as third:
                third.sendall(U32.frame(b"third"))
                wait_until(lambda: running.listener.connections == 3)
                assert running.journal.end == 1
                running.journal.consume(1)
                running.wait_for(3)
        assert sorted(running.payloads(1)) == [b"second", b"third"]


@pytest.mark.parametrize("turns", range(5))
def test_stopping_takes_what_has_reached_this_machine(tmp_path: Path, turns: int) -> None:
    """*turns* of the loop between the connects and the stop: from not accepted to half open."""
    frames = b"".join(U32.frame(b"%d" % number) for number in range(100))

    async def connect_and_stop(running: RunningListener, stack: contextlib.ExitStack) -> None:
        for _ in range(20):
            connection = stack.enter_context(connect(running))  # the loop is here: none is accepted
            connection.sendall(frames)
        for _ in range(turns):
            await asyncio.sleep(0)
        await running.listener.stop()

    with RunningListener(tmp_path, [source()]) as running, contextlib.ExitStack() as stack:
        running.loop.run(connect_and_stop(running, stack))
        assert running.journal.flush(PATIENCE_S)
        assert Counter(running.payloads()) == {b"%d" % number: 20 for number in range(100)}


def test_stopping_takes_more_than_one_read_of_an_open_connection(running: RunningListener) -> None:
    payload = bytes(300_000)

    async def send_and_stop(connection: socket.socket) -> int:
        connection.setblocking(False)
        sent = connection.send(U32.frame(payload) * 4)  # the loop is here, and reads nothing
        await running.listener.stop()
        return sent

    with connect(running, 1) as connection:
        wait_until(lambda: running.listener.connections == 1)
        whole = running.loop.run(send_and_stop(connection)) // (len(payload) + 4)
        assert is_closed(connection)
    assert running.journal.flush(PATIENCE_S)
    assert running.journal.accepted.get(1, 0) == whole


def test_a_sender_that_never_pauses_does_not_hold_up_a_stop(
    running: RunningListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel always has more of it: each read is followed by a send."""
    frame = U32.frame(bytes(60_000))
    read, stopping = os.readv, threading.Event()

    def read_and_refill(file: int, room: Any) -> int:
        count = read(file, room)
        if stopping.is_set() and len(taken) < 2000:
            taken.append(count)
            connection.send(frame * 4)
        return count

    taken: list[int] = []
    monkeypatch.setattr(os, "readv", read_and_refill)
    with connect(running, 1) as connection:
        wait_until(lambda: running.listener.connections == 1)
        connection.setblocking(False)

        async def send_and_stop() -> None:
            connection.send(frame * 4)
            stopping.set()
            await running.listener.stop()

        running.loop.run(send_and_stop())
    assert 0 < sum(taken) < 2 * CONNECTION_BYTES
    assert len(taken) < 2000


def test_a_stop_takes_no_more_than_its_bytes_and_its_time() -> None:
    now = 0.0
    ours, theirs = socket.socketpair()
    room = memoryview(bytearray(10))
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(bytes(100))
        drain = Drain(lambda: now, seconds=1.0, most=25)
        assert list(drain.read(ours.fileno(), lambda: room)) == [10, 10, 10]
        assert drain.is_over
        drain = Drain(lambda: now, seconds=1.0, most=100)
        now = 1.0
        assert drain.is_over
        assert not list(drain.read(ours.fileno(), lambda: room))


def test_after_a_stop_nobody_can_connect(running: RunningListener) -> None:
    running.stop()
    with pytest.raises(ConnectionRefusedError):
        connect(running).close()


def test_a_host_that_there_cannot_be_is_told_with_its_source(tmp_path: Path) -> None:
    nowhere = dataclasses.replace(source(), host="a..b")  # as code may say it, past all options
    with RunningListener(tmp_path, []) as running:
        running.sources = [nowhere]
        said = r"source 'lines' cannot listen on a\.\.b:0: the host 'a\.\.b' cannot be resolved: "
        with pytest.raises(RuntimeFailure, match=said):
            running.loop.run(running.listen())


def test_an_address_of_another_machine_is_told_as_such(tmp_path: Path) -> None:
    elsewhere = dataclasses.replace(source(), host="192.0.2.1")  # for documentation: nobody has it
    with RunningListener(tmp_path, []) as running:
        running.sources = [elsewhere]
        with pytest.raises(RuntimeFailure, match="use an address of this machine for --in"):
            running.loop.run(running.listen())


def test_an_address_in_use_is_told_with_source_and_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        busy = source()
        busy = dataclasses.replace(busy, port=port)
        with RunningListener(tmp_path, []) as running:
            running.sources = [busy]
            with pytest.raises(
                RuntimeFailure,
                match=f"source 'lines' cannot listen on 127.0.0.1:{port}: Address already in use; "
                "choose another address with --in, or stop the process that is using it",
            ):
                running.loop.run(running.listen())


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (SourceLimits(connections=2), "2 connections are open"),
        (SourceLimits(connections_per_peer=2), "2 connections from 127.0.0.1 are open"),
    ],
)
def test_a_connection_over_the_limit_is_refused_and_there_is_room_again_later(
    tmp_path: Path, limits: SourceLimits, reason: str
) -> None:
    with (
        RunningListener(tmp_path, [source(), source("other")], senders=limits) as running,
        capture_logs() as logs,
        connect(running) as first,
        connect(running),
    ):
        for _ in range(20):
            with connect(running) as refused:
                assert is_closed(refused)
        with connect(running, 1) as other:
            other.sendall(U32.frame(b"another source has its own"))
            running.wait_for(1, source=1)
        first.close()
        wait_until(lambda: running.listener.connections == 1, "the end of a connection")
        with connect(running) as later:
            later.sendall(U32.frame(b"taken"))
            running.wait_for(1)
    told = [log["reason"] for log in logs if log["event"] == "connection refused"]
    assert set(told) == {reason}
    assert len(told) < 6  # not one for each


def test_a_silent_connection_is_closed_where_that_is_wanted(tmp_path: Path) -> None:
    limits = SourceLimits(idle_s=0.2)
    with (
        RunningListener(tmp_path, [source()], senders=limits) as running,
        capture_logs() as logs,
        connect(running) as silent,
    ):
        assert is_closed(silent)
    assert [log["reason"] for log in logs] == ["no data came for 0.2 s"]


@pytest.mark.parametrize(
    "begun", [b"\0", b"\0\0\0\x05abc", struct.pack(">I", 1 << 20) + bytes(300_000), PREAMBLE[:5]]
)
def test_a_frame_that_is_left_unfinished_ends_its_connection_and_no_idle_one(
    tmp_path: Path, begun: bytes
) -> None:
    limits = SourceLimits(frame_s=0.2)
    with (
        RunningListener(tmp_path, [source()], senders=limits) as running,
        capture_logs() as logs,
        connect(running) as idle,
        connect(running) as unfinished,
    ):
        idle.sendall(U32.frame(b"whole"))
        unfinished.sendall(begun)
        assert is_closed(unfinished)
        idle.sendall(U32.frame(b"later"))
        running.wait_for(2)
    assert [log["reason"] for log in logs] == [
        "the frame is incomplete 0.2 s after it, or the last 64 KiB of it, began"
    ]


@pytest.mark.parametrize("said", [b"", encode(Hello(1, "s")) + b"\0\0"])
def test_the_acknowledged_protocol_left_in_mid_frame_ends_its_connection(
    tmp_path: Path, said: bytes
) -> None:
    limits = SourceLimits(frame_s=0.2)
    with (
        RunningListener(tmp_path, [source()], senders=limits) as running,
        capture_logs() as logs,
        connect(running) as idle,
        connect(running) as unfinished,
    ):
        idle.sendall(PREAMBLE + encode(Hello(1, "idle")))
        unfinished.sendall(PREAMBLE + said)
        wait_until(lambda: logs, "the end of the unfinished one")
        idle.sendall(encode(Messages(1, U32.frame(b"a"))))
        running.wait_for(1)
    assert [log["reason"] for log in logs] == [
        "the frame is incomplete 0.2 s after it, or the last 64 KiB of it, began"
    ]


def test_connections_wait_where_files_run_out_and_leave_some_to_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "most_connections", lambda: 2)
    monkeypatch.setattr(module, "_PAUSE_S", 0.01)
    limits = SourceLimits(frame_s=0.2)
    with (
        RunningListener(tmp_path, [source()], senders=limits) as running,
        capture_logs() as logs,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(2):
            stack.enter_context(connect(running)).sendall(b"\0")
        wait_until(lambda: running.listener.connections == 2, "the unfinished ones")
        with connect(running) as good:  # is heard once those have been closed
            good.sendall(U32.frame(b"good"))
            running.wait_for(1)
    told = [log for log in logs if log["event"] == "connections wait"]
    assert told[0]["reason"].startswith("too few file descriptors are left: raise the limit")
    assert len(told) < 6  # not one for each look


def test_frames_that_never_end_do_not_fill_the_memory(tmp_path: Path) -> None:
    limits = SourceLimits(held_bytes=4_000_000)
    begun = U32.frame(bytes(1_000_000))[:-1]
    with (
        RunningListener(tmp_path, [source()], senders=limits) as running,
        capture_logs() as logs,
        contextlib.ExitStack() as stack,
    ):
        load = running.listener.load
        stack.enter_context(connect(running)).sendall(begun)
        wait_until(lambda: load.held == len(begun) + 1, "a large frame")
        with connect(running) as header_alone:  # gets room as it sends
            header_alone.sendall(begun[:4])
            wait_until(lambda: load.held > len(begun) + 1, "the second")
            assert load.held <= len(begun) + 1 + 256 * 1024
        for _ in range(20):
            stack.enter_context(connect(running)).sendall(U32.frame(bytes(200_000))[:-100_000])
        with connect(running) as one_more:
            one_more.sendall(begun)
            assert is_closed(one_more)
        with connect(running) as small:
            small.sendall(U32.frame(bytes(4_000))[:-1])
            small.sendall(bytes(1))
            running.wait_for(1)
        assert load.held <= limits.held_bytes
        stack.close()
        wait_until(lambda: load.held == 0, "the end of what is held")
        with connect(running) as whole:
            whole.sendall(U32.frame(bytes(1_000_000)))
            running.wait_for(2)
    reasons = {log["reason"] for log in logs}
    assert "senders at 127.0.0.1 hold 2000000 bytes of incomplete frames" in reasons


def test_acknowledgements_do_not_pile_up_for_who_does_not_take_them(
    running: RunningListener,
) -> None:
    last = encode(Ack(2, 2 + WINDOW))
    count = 400_000  # 8 MB, more than the kernel buffers for a connection

    async def acknowledge_often() -> None:
        for _ in range(count):
            running.listener.streams.accepted({StreamName(0, "deaf"): 1})

    with connect(running) as deaf:
        deaf.sendall(PREAMBLE + encode(Hello(1, "deaf")))
        deaf.sendall(encode(Messages(1, PAYLOADS.frame(b"x"))))
        running.wait_for(1)
        running.loop.run(acknowledge_often())
        deaf.sendall(encode(Messages(2, PAYLOADS.frame(b"x"))))
        received, end = 0, b""
        while last not in end:
            data = deaf.recv(1 << 16)
            received, end = received + len(data), end[-64:] + data
        assert received < count * len(last)
