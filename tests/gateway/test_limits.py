"""How long a connection may be at one frame: from its first byte on, however the bytes come."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.gateway.harness import U32, source
from wallaroo.connectors.tcp.acknowledged import AckedConnection
from wallaroo.connectors.tcp.connection import FrameConnection
from wallaroo.gateway.limits import FrameProgress, Load, SourceLimits
from wallaroo.wire.acknowledged import Hello, Messages, encode


class Host:
    """What connections need of a listener, with a clock that the test sets."""

    is_secret = False

    def __init__(self) -> None:
        self.now = 0.0
        self.buffer = memoryview(bytearray(256 * 1024))
        self.load = Load(SourceLimits())
        self.streams: Any = self
        self.taken = self.accepted = 0

    def time(self) -> float:
        return self.now

    def take(self, source: int, count: int, data: bytes, position: object = None) -> None: ...

    def open(self, *_: object) -> Any:
        return self

    def opened(self, connection: object) -> None: ...

    def closed(self, connection: object) -> None: ...


class Transport:
    ended = False

    def abort(self) -> None:
        self.ended = True

    def write(self, data: bytes) -> None: ...

    def get_extra_info(self, name: str) -> None: ...


class Plain:
    def __init__(self) -> None:
        self.host = Host()
        self.connection = FrameConnection(self.host, 0, source(), ("127.0.0.1", 1))

    def send(self, data: bytes, now: float) -> None:
        self.host.now = now
        while data:
            room = self.connection.get_buffer(-1)
            piece = data[: len(room)]
            room[: len(piece)] = piece
            self.connection.buffer_updated(len(piece))
            data = data[len(piece) :]

    def frame(self, payload: bytes, _number: int) -> bytes:
        return U32.frame(payload)


class Acked:
    def __init__(self) -> None:
        self.host = Host()
        self.transport = Transport()
        transport: Any = cast("Any", self.transport)
        self.ends: list[str] = []
        self.connection = AckedConnection(
            self.host, 0, source(), transport, lambda why, _: self.ends.append(why), "here"
        )

    def send(self, data: bytes, now: float) -> None:
        self.host.now = now
        self.connection.data_received(data)

    def frame(self, payload: bytes, number: int) -> bytes:
        return encode(Messages(number, U32.frame(payload)))


@pytest.fixture(params=[Plain, Acked])
def sender(request: pytest.FixtureRequest) -> Any:
    made = request.param()
    if isinstance(made, Acked):
        made.send(encode(Hello(1, "s")), 0.0)
    return made


def test_bytes_that_trickle_do_not_make_a_frame_younger(sender: Any) -> None:
    for place, byte in enumerate(sender.frame(bytes(100), 1)[:-1]):
        sender.send(bytes([byte]), 10.0 + place)
    assert sender.connection.is_in_frame
    assert sender.connection.progress.since == 10.0


def test_each_frame_has_its_own_time(sender: Any) -> None:
    first, second = sender.frame(b"a", 1), sender.frame(b"b", 2)
    sender.send(first[:3], 1.0)
    sender.send(first[3:] + second[:3], 2.0)
    assert sender.connection.progress.since == 2.0
    sender.send(second[3:], 3.0)
    assert not sender.connection.is_in_frame
    sender.send(sender.frame(b"c", 3)[:1], 100.0)
    assert sender.connection.progress.since == 100.0


def test_each_piece_of_a_large_frame_has_its_own_time(sender: Any) -> None:
    frame = sender.frame(bytes(1_000_000), 1)
    sender.send(frame[:10], 1.0)
    sender.send(frame[10 : FrameProgress.PIECE - 1], 2.0)
    assert sender.connection.progress.since == 1.0
    sender.send(frame[FrameProgress.PIECE - 1 : FrameProgress.PIECE + 100], 3.0)
    assert sender.connection.progress.since == 3.0
    sender.send(frame[FrameProgress.PIECE + 100 : 600_000], 4.0)
    assert sender.connection.progress.since == 4.0
    sender.send(frame[600_000:600_001], 5.0)
    assert sender.connection.progress.since == 4.0


def test_what_is_there_of_a_frame_counts_until_the_frame_is_whole(sender: Any) -> None:
    frame = sender.frame(bytes(100_000), 1)
    sender.send(frame[:50_000], 1.0)
    assert sender.host.load.held >= 50_000
    sender.send(frame[50_000:], 2.0)
    assert sender.host.load.held == 0


def test_a_sender_of_the_acknowledged_protocol_that_holds_too_much_is_cut_off() -> None:
    acked = Acked()
    acked.host.load = Load(SourceLimits(held_bytes=100_000))
    acked.send(encode(Hello(1, "s")), 0.0)
    frame = acked.frame(bytes(200_000), 1)
    acked.send(frame[:40_000], 0.0)
    assert not acked.transport.ended
    acked.send(frame[40_000:60_000], 0.0)
    assert acked.transport.ended
    assert acked.ends == ["senders at here hold 50000 bytes of incomplete frames"]


class CountedBuffer:
    """The shared buffer, which counts the bytes that are copied into it and out of it."""

    def __init__(self, size: int) -> None:
        self._buffer = memoryview(bytearray(size))
        self.copied = 0

    def __len__(self) -> int:
        return len(self._buffer)

    def __getitem__(self, part: slice) -> memoryview:
        found = self._buffer[part]
        if part.start is None:
            self.copied += len(found)
        return found

    def __setitem__(self, part: slice, data: bytes) -> None:
        self.copied += len(data)
        self._buffer[part] = data


def test_a_frame_in_one_byte_segments_is_not_copied_with_each_of_them() -> None:
    plain = Plain()
    counted: Any = CountedBuffer(256 * 1024)
    plain.host.buffer = counted
    taken: list[bytes] = []
    host: Any = plain.host
    host.take = lambda _source, _count, data, _position=None: taken.append(data)
    frame = U32.frame(bytes(range(256)) * 400)
    for place in range(len(frame)):
        plain.send(frame[place : place + 1], 0.0)
    assert taken == [frame]
    assert counted.copied < 200 * len(frame)  # 100,000 for each byte, were it all copied
    assert plain.host.load.held == 0


def test_a_frame_that_trickles_takes_no_more_room_than_four_times_what_came() -> None:
    plain = Plain()
    begun = U32.frame(bytes(200_000))[:5000]
    plain.send(begun[:4200], 0.0)
    plain.send(begun[4200:], 0.0)
    assert plain.host.load.held <= 4 * 5000
