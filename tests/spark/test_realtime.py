"""What is peculiar to the real-time engine: its processes, and what it refuses."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.harness import APPS, PATIENCE_S, Receiver, frame, processes, run
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"
WORDS = 20_000


def _killed(part: str) -> Callable[[BackgroundRun], None]:
    def kill(running: BackgroundRun) -> None:
        for pid in processes(running, part):
            os.kill(pid, signal.SIGKILL)

    return kill


@pytest.mark.parametrize(
    ("part", "ends"),
    [
        ("realtime.agent", False),  # with the first stage and all partitions
        (" wallaroo gateway ", False),
        ("bin/java", True),
    ],
)
def test_a_kill_in_mid_stream_loses_and_doubles_nothing(
    part: str, ends: bool, tmp_path: Path
) -> None:
    payloads = [b"w%d x" % (n % 400) for n in range(WORDS)]
    with Receiver("lines") as receiver:
        with run(APPS / "word_count", receiver, tmp_path) as running:
            sending = threading.Thread(target=_send, args=(running.sources[SOURCE], payloads))
            sending.start()
            receiver.wait_for(1_000)
            _killed(part)(running)
            if ends:
                assert running.process.wait(PATIENCE_S) == 1
            else:
                sending.join()
                _go_on(running, payloads)
                receiver.wait_for(2 * WORDS)
                assert running.stop() == 0
            sending.join()
        if ends:
            (commits,) = tmp_path.glob("**/commits")
            (commits / ".0.6ba7b810.tmp").touch()  # as a kill in the first commit leaves it
            with run(APPS / "word_count", receiver, tmp_path) as running:
                _go_on(running, payloads)
                receiver.wait_for(2 * WORDS)
                assert running.stop() == 0
        received = set(receiver.messages)  # plain TCP may repeat the last ones after a kill
    expected = Counter(word for payload in payloads for word in payload.split())
    assert received == {
        b"%s => %d\n" % (word, n + 1) for word in expected for n in range(expected[word])
    }


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
