"""Word Count on Spark, over real sockets: totals, senders, and what bad input gets."""

from __future__ import annotations

import contextlib
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.spark.harness import APPS, PATIENCE_S, Receiver, frame, run, send, send_bytes
from wallaroo.run.background_run import BackgroundRun, Event
from wallaroo.run.state.directory import FORMAT
from wallaroo.system.sealed_files import sealed
from wallaroo.testing import load, simulate

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"
MAX_FRAME = 1_000_000
TEXT = """It was the best of times, it was the WORST of times;
it was the age of wisdom...

"Élan vital" — naïve Ångström, 東京 and 'zebra'!
42 acorns  &  (two spaces)
"""


class Counting:
    """A running Word Count, and what it must have sent so far."""

    def __init__(self, running: BackgroundRun, receiver: Receiver) -> None:
        self.running = running
        self.receiver = receiver
        self.address = running.sources[SOURCE]
        self._application = load(APPS / "word_count")
        self._payloads: list[bytes] = []

    def check(self, payloads: list[bytes]) -> None:
        """All that came, in all, is what the oracle makes of all that was sent, per word."""
        self._payloads += payloads
        due = simulate(self._application, [(SOURCE, p) for p in self._payloads]).outputs
        received = self.receiver.wait_for(len(due))
        assert _by_word(received) == _by_word(due)

    def closed(self, reason: str) -> Event:
        """The first log event of a closed connection that gives *reason*."""
        return self.running.wait_for_event("connection closed", PATIENCE_S, {"reason": reason})


def _by_word(lines: list[bytes]) -> dict[bytes, list[bytes]]:
    words: dict[bytes, list[bytes]] = {}
    for line in lines:
        words.setdefault(line.rpartition(b" => ")[0], []).append(line)
    return words


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counting]:
    state = tmp_path_factory.mktemp("state")
    options = ["--max-frame", str(MAX_FRAME)]
    with (
        Receiver("lines") as receiver,
        run(APPS / "word_count", receiver, state, options=options) as running,
    ):
        yield Counting(running, receiver)
        assert running.stop() == 0


def test_totals_of_a_text_are_exact(counting: Counting) -> None:
    payloads = [TEXT.encode(), *(line.encode() for line in TEXT.split("\n"))]
    send(counting.address, payloads)
    counting.check(payloads)


def test_four_senders_at_once_lose_nothing(counting: Counting) -> None:
    payloads = [f"sender {n} says line {n} of {k}".encode() for n in range(4) for k in range(500)]
    with ThreadPoolExecutor(4) as pool:
        for n in range(4):
            pool.submit(send, counting.address, payloads[n::4])
    counting.check(payloads)


def test_a_payload_of_no_bytes_is_an_empty_message(counting: Counting) -> None:
    send(counting.address, [b"", b"empty before"])
    counting.check([b"", b"empty before"])


def test_a_connection_cut_in_mid_frame_keeps_its_complete_messages(counting: Counting) -> None:
    send_bytes(counting.address, frame(b"whole") + frame(b"cut off here")[:-4])
    counting.check([b"whole"])
    counting.closed("mid-frame")


def test_a_frame_over_the_limit_closes_its_connection_alone(counting: Counting) -> None:
    host, port = counting.address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as bystander:
        with socket.create_connection((host, int(port))) as giant:
            giant.sendall(frame(b"before the giant") + (MAX_FRAME + 1).to_bytes(4, "big"))
            wait_until_closed(giant)
        bystander.sendall(frame(b"the bystander goes on"))
        counting.check([b"before the giant", b"the bystander goes on"])
    event = counting.closed(f"a frame of {MAX_FRAME + 1} bytes")
    assert event["source"] == SOURCE
    assert str(MAX_FRAME) in event["reason"]
    assert event["peer"].startswith("127.0.0.1:")


def test_bytes_that_are_no_frame_close_their_connection(counting: Counting) -> None:
    send_until_closed(counting.address, b"GET / HTTP/1.1\r\nHost: example\r\n\r\n")
    counting.closed("an HTTP request came")
    send(counting.address, [b"still here"])
    counting.check([b"still here"])


def test_a_payload_that_does_not_decode_is_set_aside(counting: Counting) -> None:
    send(counting.address, [b"good one", b"\xff\xfe bad", b"good two"])
    counting.check([b"good one", b"good two"])
    event = counting.running.wait_for_event("message set aside", PATIENCE_S)
    assert event["step"] == "decoder"
    assert event["pipeline"] == SOURCE
    assert "UnicodeDecodeError" in event["error"]
    assert event["place"].startswith("application.py:")
    assert counting.running.client is not None
    assert counting.running.client.status().set_aside == 1


def test_the_help_of_ready_tells_every_bound_address(counting: Counting) -> None:
    ready = counting.running.wait_for_event("ready", PATIENCE_S)
    assert set(ready["sources"]) == {SOURCE}
    assert not ready["sources"][SOURCE].endswith(":0")
    assert Counter(ready["sinks"].values()) == {counting.receiver.address: 1}


def send_until_closed(address: str, data: bytes) -> None:
    """Send *data*; the other side is to close the connection."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(data)
        wait_until_closed(connection)


def wait_until_closed(connection: socket.socket) -> None:
    """Wait until the other side closes *connection*, in whatever way."""
    connection.settimeout(PATIENCE_S)
    with contextlib.suppress(ConnectionError):
        while connection.recv(4096):
            pass


def test_state_of_another_application_is_refused(tmp_path: Path) -> None:
    told = {"application": "market-spread", "partitions": 2, "buckets": 16, "format": FORMAT}
    (tmp_path / "application.json").write_text(sealed(told))
    with Receiver("lines") as receiver:
        running = run(APPS / "word_count", receiver, tmp_path)
        assert running.wait(PATIENCE_S) == 2
    said = running.events[-1]["event"]
    assert "'market-spread'" in said
    assert "--state-dir" in said
