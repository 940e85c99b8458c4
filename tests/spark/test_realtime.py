"""What is peculiar to the real-time engine: its processes, and what it refuses."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import wait_until
from tests.spark.harness import APPS, PATIENCE_S, Receiver, frame, processes, run
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"
PART = 15_000
"""Messages around each kill."""


def test_kills_in_mid_stream_lose_and_double_nothing(tmp_path: Path) -> None:
    payloads = [b"w%d x" % (n % 400) for n in range(3 * PART)]
    with Receiver("lines") as receiver:
        with run(APPS / "word_count", receiver, tmp_path) as running:
            # as a kill of Java in the first commit leaves it
            (commits,) = tmp_path.glob("**/commits")
            (commits / ".0.6ba7b810.tmp").touch()
            # an agent has the first stage and all partitions
            parts = ("bin/java", "realtime.agent", " wallaroo gateway ")
            for part, end in zip(parts, (PART, 2 * PART, 3 * PART), strict=True):
                with _sending(running, payloads[end - PART : end]):
                    _kill_in_mid_stream(running, receiver, part)
                _go_on(running, payloads[:end])
                _wait_for_different(receiver, 2 * end)
            assert running.stop() == 0
        received = set(receiver.messages)
    expected = Counter(word for payload in payloads for word in payload.split())
    assert received == {
        b"%s => %d\n" % (word, n + 1) for word in expected for n in range(expected[word])
    }


def _kill_in_mid_stream(running: BackgroundRun, receiver: Receiver, part: str) -> None:
    receiver.wait_for(len(receiver.messages) + 1_000)
    for pid in processes(running, part):
        os.kill(pid, signal.SIGKILL)


def _wait_for_different(receiver: Receiver, count: int) -> None:
    """Plain TCP may repeat the last outputs after a kill."""
    wait_until(lambda: len(set(receiver.messages)) >= count, "all outputs", PATIENCE_S)


@contextlib.contextmanager
def _sending(running: BackgroundRun, payloads: list[bytes]) -> Iterator[None]:
    """Send meanwhile, for as long as the other side takes it."""
    thread = threading.Thread(target=_send, args=(running.sources[SOURCE], payloads))
    thread.start()
    yield
    thread.join()


def _send(address: str, payloads: list[bytes]) -> None:
    """Send *payloads*, for as long as the other side takes them."""
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port))) as connection:
            for start in range(0, len(payloads), 50):
                connection.sendall(b"".join(map(frame, payloads[start : start + 50])))
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1):
                pass
    except OSError:
        return


def _go_on(running: BackgroundRun, payloads: list[bytes]) -> None:
    """Send what was not accepted."""
    client = running.client
    assert client is not None
    while (accepted := client.status().sources[0].accepted) < len(payloads):
        _send(running.sources[SOURCE], payloads[accepted:])
