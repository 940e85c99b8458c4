"""Frames that have come, without and with TLS, and the wait for none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.harness import Authority
from wallaroo.system.tls import TLSFiles
from wallaroo.system.tls_stream import TLSStream
from wallaroo.wire.frame_socket import FrameSocket, Stream

FRAMES = [b"", b"one", b"two" * 100_000, b"three"]


def with_tls(ours: socket.socket, theirs: socket.socket, directory: Path) -> tuple[Stream, Stream]:
    """Both ends of a connection after the handshake, with what TLS 1.3 sends after that."""
    authority = Authority(directory, "ours")
    serving, trusting = (
        authority.files().serving(),
        TLSFiles(authorities=authority.file).connecting(),
    )
    assert serving is not None
    assert trusting is not None
    served: list[TLSStream] = []
    thread = threading.Thread(target=lambda: served.append(TLSStream(ours, serving)))
    thread.start()
    connected = TLSStream(theirs, trusting, "127.0.0.1")
    thread.join()
    return served[0], connected


@pytest.fixture(params=["plain", "tls"])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[FrameSocket, Stream]]:
    """One that sends frames, and the stream on which they come."""
    ours, theirs = socket.socketpair()
    ends: tuple[Stream, Stream] = (ours, theirs)
    if request.param == "tls":
        ends = with_tls(ours, theirs, tmp_path)
    yield FrameSocket(ends[0]), ends[1]
    for one in ends:
        one.close()


def test_nothing_has_come_until_something_is_sent(ends: tuple[FrameSocket, Stream]) -> None:
    frames = FrameSocket(ends[1])
    assert list(frames.arrived()) == []
    assert not frames.has_frame()


def test_frames_that_have_come_are_returned_in_order_and_a_part_of_one_is_kept(
    ends: tuple[FrameSocket, Stream],
) -> None:
    sender, stream = ends
    frames, found = FrameSocket(stream), list[bytes]()

    def send() -> None:
        for frame in FRAMES:
            sender.send(frame)

    thread = threading.Thread(target=send)
    thread.start()
    while len(found) < len(FRAMES):
        found += frames.arrived()
    thread.join()
    assert found == FRAMES
    sender.close()
    with pytest.raises(EOFError):
        list(frames.arrived())


def test_receive_and_arrived_share_what_has_come() -> None:
    ours, theirs = map(FrameSocket, socket.socketpair())
    for frame in FRAMES[:2]:
        ours.send(frame)
    assert theirs.receive() == FRAMES[0]
    assert theirs.has_frame()
    assert list(theirs.arrived()) == FRAMES[1:2]
    assert not theirs.has_frame()
    ours.close()
    theirs.close()
