"""The network between driver and gateway fails as it is told to, and only then."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.chaos.network import DRIVER_SIDE, GATEWAY_SIDE, Network
from tests.helpers import PATIENCE_S

SENT = b"a message" * 1000


@pytest.fixture
def echo() -> Iterator[int]:
    """Port of a server that sends back what it receives."""

    def answer(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65_536):
                connection.sendall(data)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    with socket.create_server((GATEWAY_SIDE, 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def network(echo: int) -> Iterator[Network]:
    network = Network([echo])
    yield network
    network.close()


def connected(port: int) -> socket.socket:
    return socket.create_connection((DRIVER_SIDE, port), PATIENCE_S)


def received(connection: socket.socket, most: int) -> bytes:
    """What comes until there are *most* bytes, or the connection ends."""
    data = b""
    while len(data) < most and (piece := connection.recv(most - len(data))):
        data += piece
    return data


def test_what_is_sent_arrives_in_both_directions(network: Network, echo: int) -> None:
    with connected(echo) as connection:
        connection.sendall(SENT)
        assert received(connection, len(SENT)) == SENT


def test_what_is_held_back_comes_later(network: Network, echo: int) -> None:
    with connected(echo) as connection:
        connection.sendall(b"1")
        assert received(connection, 1) == b"1"
        network.stall()
        connection.sendall(SENT)
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        network.go_on()
        connection.settimeout(PATIENCE_S)
        assert received(connection, len(SENT)) == SENT


def test_connections_are_reset_and_refused(network: Network, echo: int) -> None:
    with connected(echo) as connection:
        connection.sendall(b"1")
        assert received(connection, 1) == b"1"
        network.refuse()
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            connected(echo)
    network.accept()
    with connected(echo) as connection:
        connection.sendall(SENT)
        assert received(connection, len(SENT)) == SENT


def test_a_piece_is_cut_in_the_middle(network: Network, echo: int) -> None:
    with connected(echo) as connection:
        connection.sendall(b"1")
        assert received(connection, 1) == b"1"
        assert network.cut(random.Random(1)) == 1
        connection.sendall(SENT)
        with contextlib.suppress(ConnectionResetError):
            assert len(received(connection, len(SENT))) < len(SENT)
