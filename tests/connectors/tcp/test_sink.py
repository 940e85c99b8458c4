"""Sinks over real sockets: everything in order, whatever the receiver does."""

from __future__ import annotations

import dataclasses
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.gateway.harness import finished, outputs, publish, sink
from tests.gateway.store_loop import StoreLoop
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.connectors.tcp import sink as module
from wallaroo.connectors.tcp.sink import TCPSender
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.wire.numbered import NUMBER, SequenceCutter, sequenced

MIB = 1024 * 1024


class Receiver:
    """A port that listens when it is told to, and takes one connection after the other."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB // 4)
        self._socket.bind(("127.0.0.1", 0))  # until it listens, who connects is refused
        self.address: tuple[str, int] = self._socket.getsockname()

    def listen(self) -> Receiver:
        self._socket.settimeout(PATIENCE_S)
        self._socket.listen()
        return self

    def accept(self) -> socket.socket:
        connection, _ = self._socket.accept()
        connection.settimeout(PATIENCE_S)
        return connection

    def close(self) -> None:
        self._socket.close()


class Sending:
    """An outbox and the sender that empties it."""

    def __init__(self, directory: Path, receiver: Receiver, *, sequenced: bool = False) -> None:
        self._directory = directory
        self._sink = dataclasses.replace(sink(receiver.address), sequenced=sequenced)
        self.chunks = 0
        self.start()

    def start(self) -> None:
        self.running = StoreLoop(self._directory)
        self.outbox = self.running.store.outbox
        context = ConnectorContext(self.running.store.journal, self.outbox)
        self.sender = TCPSender(context, 0, self._sink, self.running.loop)

    def stop(self) -> None:
        self.sender.stop()
        self.running.close()

    def publish(self, *made: bytes) -> None:
        self.chunks += 1
        publish(self.outbox, finished(self.chunks, outputs(*made)))

    @property
    def numbering(self) -> bytes:
        """What a connection of a numbered sink begins with."""
        return sequenced(0, [self.outbox.numbering(self._sink.name).encode()])

    def wait_until_delivered(self) -> None:
        wait_until(lambda: not self.outbox.undelivered, "the delivery of everything")


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(module, "_RETRY_MOST_S", 0.1)
    monkeypatch.setattr(module, "_IDLE_LOOK_S", 0.05)
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def sending(tmp_path: Path, receiver: Receiver) -> Iterator[Sending]:
    made = Sending(tmp_path, receiver)
    yield made
    made.stop()


def read(connection: socket.socket, count: int) -> bytes:
    """Exactly *count* bytes."""
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(min(count - len(data), 1 << 18))
        assert piece, f"the connection ended after {len(data)} of {count} bytes"
        data += piece
    return bytes(data)


def has_more(connection: socket.socket) -> bool:
    """Whether anything waits to be read."""
    connection.setblocking(False)
    try:
        return bool(connection.recv(1))
    except BlockingIOError:
        return False
    finally:
        connection.settimeout(PATIENCE_S)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%06d\n" % number for number in range(start, start + count)]


def test_outputs_arrive_in_order_and_once(receiver: Receiver, sending: Sending) -> None:
    receiver.listen()
    for batch in range(20):
        sending.publish(*numbered(50, 50 * batch))
    with receiver.accept() as connection:
        assert read(connection, 7_000) == b"".join(numbered(1_000))
        sending.wait_until_delivered()
        assert not has_more(connection)
    assert sending.outbox.counters()["delivered"] == 1_000


def test_outputs_wait_for_a_receiver_that_is_not_there_yet(
    receiver: Receiver, sending: Sending
) -> None:
    sending.publish(b"early\n")
    assert sending.sender.problem is not None
    receiver.listen()
    with receiver.accept() as connection:
        assert read(connection, 6) == b"early\n"
        sending.wait_until_delivered()


def test_nothing_is_sent_twice_to_a_receiver_that_comes_back(
    receiver: Receiver, sending: Sending
) -> None:
    receiver.listen()
    for turn in range(3):
        sending.publish(b"turn %d\n" % turn)
        with receiver.accept() as connection:
            assert read(connection, 7) == b"turn %d\n" % turn
            sending.wait_until_delivered()
            assert not has_more(connection)


def test_only_the_output_that_was_cut_is_sent_again(receiver: Receiver, sending: Sending) -> None:
    receiver.listen()
    large = bytes(range(256)) * (16 * MIB // 256)
    sending.publish(b"one\n", b"two\n", large, b"last\n")
    with receiver.accept() as connection:
        assert read(connection, 8) == b"one\ntwo\n"
        read(connection, MIB)
    with receiver.accept() as connection:
        assert read(connection, len(large) + 5) == large + b"last\n"
        sending.wait_until_delivered()
        assert not has_more(connection)


def test_a_receiver_that_closes_twice_still_gets_what_comes_after(
    receiver: Receiver, sending: Sending
) -> None:
    receiver.listen()
    large, rest = bytes(16 * MIB), numbered(100)
    sending.publish(large)
    sending.publish(*rest)
    with receiver.accept() as connection:
        read(connection, 15 * MIB)
        wait_until(lambda: len(sending.sender._flight) == 2, "the second batch on its way")
    with receiver.accept() as connection:
        connection.recv(1)  # closes early in the first batch
    with receiver.accept() as connection:
        read(connection, 6 * MIB)  # and further on in the first batch
    with receiver.accept() as connection:
        assert read(connection, len(large)) == large
        assert read(connection, 700) == b"".join(rest)
        sending.wait_until_delivered()


def test_a_receiver_that_comes_back_may_be_slow(receiver: Receiver, sending: Sending) -> None:
    receiver.listen()
    first, second = bytes(MIB), b"x" * (16 * MIB)
    sending.publish(first)
    sending.publish(second)
    with receiver.accept():
        wait_until(lambda: len(sending.sender._flight) == 2, "the second batch on its way")
    with receiver.accept() as connection:
        assert read(connection, MIB) == first
        wait_until(lambda: sending.outbox.undelivered == 1, "the delivery of the first batch")
        assert read(connection, len(second)) == second
        sending.wait_until_delivered()


def test_outputs_that_the_receivers_side_has_not_taken_do_not_count_as_delivered(
    receiver: Receiver, sending: Sending
) -> None:
    receiver.listen()
    sending.publish(bytes(16 * MIB))
    with receiver.accept() as connection:
        read(connection, MIB)
        assert sending.outbox.undelivered == 1
        read(connection, 15 * MIB)
        sending.wait_until_delivered()


def test_what_was_not_delivered_goes_out_after_a_restart(
    receiver: Receiver, sending: Sending
) -> None:
    sending.publish(*numbered(10))
    sending.stop()
    sending.start()
    sending.publish(*numbered(10, 10))
    with receiver.listen().accept() as connection:
        assert read(connection, 140) == b"".join(numbered(20))
        sending.wait_until_delivered()


def test_sequenced_outputs_keep_their_numbers_over_connections_and_gateways(
    tmp_path: Path, receiver: Receiver
) -> None:
    sending = Sending(tmp_path, receiver, sequenced=True)
    receiver.listen()
    large = bytes(16 * MIB)
    sending.publish(b"one", b"two", large)
    sending.publish(b"last")
    name = sending.numbering
    seen: dict[str, int] = {}
    with receiver.accept() as connection:
        begun = read(connection, len(name) + MIB)
        assert begun.startswith(name + sequenced(1, [b"one", b"two"]))
        assert SequenceCutter(seen).feed(begun) == [b"one", b"two"]
        connection.sendall(NUMBER.pack(1))
        wait_until(lambda: sending.sender._answered == 1, "the answer")
    with receiver.accept() as connection:  # the large one was not whole, "two" not acknowledged
        begun = read(connection, len(name) + MIB)
        assert begun.startswith(name + sequenced(2, [b"two"]))
    sending.stop()
    sending.start()
    found: list[bytes] = []
    while len(found) < 2:  # a connection that the first gateway had opened may come before
        cutter = SequenceCutter(seen)
        with receiver.accept() as connection:
            while len(found) < 2 and (data := connection.recv(MIB)):
                found += cutter.feed(data)
            if len(found) == 2:
                assert sending.outbox.undelivered == 4
                connection.sendall(NUMBER.pack(cutter.last))
                sending.wait_until_delivered()
    assert found == [large, b"last"]
    sending.stop()


def test_a_receiver_may_acknowledge_what_a_former_gateway_sent(
    tmp_path: Path, receiver: Receiver
) -> None:
    sending = Sending(tmp_path, receiver, sequenced=True)
    receiver.listen()
    sending.publish(b"a")
    with receiver.accept() as connection:
        connection.sendall(NUMBER.pack(1))
        sending.wait_until_delivered()
    sending.stop()
    sending.start()
    name = sending.numbering
    with receiver.accept() as connection:
        connection.sendall(NUMBER.pack(1))
        assert read(connection, len(name)) == name
        wait_until(lambda: sending.sender._answered == 1, "the answer")
        sending.publish(b"b")
        assert read(connection, 13) == sequenced(2, [b"b"])
    sending.stop()


def test_what_a_receiver_had_not_read_when_it_closed_comes_again(
    tmp_path: Path, receiver: Receiver
) -> None:
    sending = Sending(tmp_path, receiver, sequenced=True)
    receiver.listen()
    sending.publish(b"a", b"b")
    name = sending.numbering
    for _ in range(3):
        receiver.accept().close()
    with receiver.accept() as connection:
        assert read(connection, len(name) + 26) == name + sequenced(1, [b"a", b"b"])
        connection.sendall(NUMBER.pack(2))
        sending.wait_until_delivered()
    sending.stop()


def test_a_receiver_that_acknowledges_what_it_was_not_sent_is_left(
    tmp_path: Path, receiver: Receiver
) -> None:
    sending = Sending(tmp_path, receiver, sequenced=True)
    receiver.listen()
    sending.publish(b"a")
    with receiver.accept() as connection:
        connection.sendall(NUMBER.pack(7))
        while connection.recv(100):
            pass
    assert sending.outbox.undelivered == 1
    sending.stop()


@pytest.mark.parametrize("answer", [NUMBER.pack(1 << 40), None])
def test_a_receiver_that_gets_nowhere_is_called_less_and_less_and_told_of_in_few_lines(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, answer: bytes | None
) -> None:
    monkeypatch.setattr(module, "_RETRY_FIRST_S", 0.001)
    monkeypatch.setattr(module, "_RETRY_MOST_S", 0.008)
    receiver.listen()

    def fail() -> None:
        """Take a connection, and reset it; where that is quick, it seems never to have been."""
        with receiver.accept() as connection:
            if answer is not None:
                connection.sendall(answer)
                while connection.recv(100):
                    pass
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with capture_logs() as logs:
        sending = Sending(tmp_path, receiver, sequenced=True)
        sending.publish(b"a")
        for _ in range(20):
            fail()
        with receiver.accept() as connection:
            connection.sendall(NUMBER.pack(1))
            sending.wait_until_delivered()
        fail()
        receiver.accept().close()
        sending.stop()
    pauses = [log["next_try_s"] for log in logs if "next_try_s" in log]
    again = pauses.index(0.0)  # something was delivered
    assert pauses[:again] == sorted(pauses[:again])
    assert (pauses[0], pauses[again - 1], pauses[again + 1]) == (0.001, 0.008, 0.001)
    assert again < 9
    assert len([log for log in logs if log["event"] == "receiver connected"]) < 9
