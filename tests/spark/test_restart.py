"""What survives: stops and kills in mid-stream, and a start on the same state directory."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.helpers import ROOT, wait_until
from tests.spark.harness import (
    APPS,
    PATIENCE_S,
    Receiver,
    frame,
    kill_gateway,
    processes,
    run,
    send,
)
from wallaroo.cli.options import application_without_addresses
from wallaroo.gateway.damage import LOG
from wallaroo.history.explanation import Explanation
from wallaroo.history.records import records
from wallaroo.run.background_run import BackgroundRun
from wallaroo.system.restarts import Restarts

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"
WORDS = 40_000


class Sender:
    """Sends words on one connection until it breaks; can go on behind what was accepted.

    Args:
        messages: How many there are, each of two words.
    """

    def __init__(self, messages: int = WORDS) -> None:
        self.payloads = [b"w%d x" % (n % 400) for n in range(messages)]

    def send(self, address: str, start: int, end: int | None = None) -> None:
        """Send messages number *start* to *end*, for as long as the other side takes them."""
        host, port = address.rsplit(":", 1)
        end = len(self.payloads) if end is None else end
        with socket.create_connection((host, int(port))) as connection:
            try:
                for place in range(start, end, 50):
                    piece = self.payloads[place : min(place + 50, end)]
                    connection.sendall(b"".join(map(frame, piece)))
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1):
                    pass
            except OSError:
                return  # the other side has stopped


@contextlib.contextmanager
def mid_stream(
    starting: BackgroundRun, receiver: Receiver, sender: Sender, end: int
) -> Iterator[BackgroundRun]:
    """A run while messages up to number *end* are sent and some of their outputs have come."""
    seen = len(receiver.messages)
    with starting as running:
        to = (running.sources[SOURCE], accepted(running), end)
        sending = threading.Thread(target=sender.send, args=to)
        sending.start()
        receiver.wait_for(seen + 1000)
        yield running
        sending.join()


def _restarted(running: BackgroundRun, times: int) -> bool:
    """Whether the gateway has been started anew so often."""
    return [event["event"] for event in running.events].count("gateway restarted") == times


def accepted(running: BackgroundRun) -> int:
    assert running.client is not None
    return running.client.status().sources[0].accepted


def _finish(state: Path, receiver: Receiver, sender: Sender) -> None:
    """Go on behind what was accepted, and check every count of every word."""
    with run(APPS / "word_count", receiver, state) as running:
        sender.send(running.sources[SOURCE], accepted(running))
        running.wait_until_accepted(SOURCE, WORDS)
        received = receiver.wait_for(2 * WORDS)
        assert running.stop() == 0
    due = Counter(word for payload in sender.payloads for word in payload.split())
    counts: dict[bytes, list[int]] = {}
    for line in received:
        word, _, count = line.strip().rpartition(b" => ")
        counts.setdefault(word, []).append(int(count))
    for word, n in due.items():
        assert counts.pop(word) == list(range(1, n + 1)), word
    assert not counts


def test_a_stop_and_a_kill_in_mid_stream_lose_and_double_nothing_in_a_moved_directory(
    tmp_path: Path,
) -> None:
    sender = Sender()
    first, second = tmp_path / "first", tmp_path / "second place"
    with Receiver("lines") as receiver:
        start = partial(run, APPS / "word_count", receiver)
        with mid_stream(start(first), receiver, sender, WORDS // 2) as running:
            assert running.stop() == 0
            assert running.wait_for_event("stopped", PATIENCE_S)["kept_for_next_start"] == 0
        first.rename(second)
        with mid_stream(start(second), receiver, sender, WORDS) as running:
            running.process.send_signal(signal.SIGKILL)
            running.process.wait(PATIENCE_S)
        _finish(second, receiver, sender)
    assert not first.exists()
    # the log tells how each word counted
    application = application_without_addresses(str(APPS / "word_count"), ())
    explanation = Explanation(application, records(second / LOG), "x")
    changes = list(explanation)
    counts = [change.after["word_totals"]["x"] for change in changes]
    assert counts == list(range(1, WORDS + 1))
    assert not any(change.recorded for change in changes)
    assert not explanation.lacks


def test_a_gateway_that_dies_behind_each_batch_is_never_given_up(tmp_path: Path) -> None:
    deaths = Restarts.MOST + 2
    with (
        Receiver("lines") as receiver,
        run(APPS / "word_count", receiver, tmp_path) as running,
    ):
        for death in range(1, deaths + 1):
            send(running.sources[SOURCE], [b"a b"])
            # plain TCP does not report it: a gateway killed now may not have the message on disk
            running.wait_until_accepted(SOURCE, death)
            running.wait_until_processed()
            kill_gateway(running)
            wait_until(functools.partial(_restarted, running, death), "the next gateway")
        send(running.sources[SOURCE], [b"a b"])
        assert running.stop() == 0  # which takes what has come
    due = {b"%s => %d\n" % (word, n) for word in (b"a", b"b") for n in range(1, deaths + 2)}
    wait_until(lambda: set(receiver.messages) == due, "all outputs")


def test_windows_close_also_where_the_gateway_dies_before_it_tells_of_their_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = tmp_path / "faults"
    faults.mkdir()
    monkeypatch.setenv("WALLAROO_FAULTS", str(faults))
    with (
        Receiver("lines") as receiver,
        run(ROOT / "tests" / "features" / "silence.py", receiver, tmp_path / "state") as running,
    ):
        send(running.sources["Readings"], [b"a 1"])
        receiver.wait_for(1)
        death = faults / "outbox-after-publish"
        death.write_text("0 0")
        send(running.sources["Readings"], [b"b 2"])
        wait_until(lambda: not death.exists(), "the gateway's death")
        assert len(receiver.wait_for(2)) == 2  # nothing else comes that could close it
        assert running.stop() == 0


def test_a_run_whose_gateway_cannot_come_back_ends_and_says_why(tmp_path: Path) -> None:
    with (
        Receiver("lines") as receiver,
        run(APPS / "word_count", receiver, tmp_path) as running,
    ):
        send(running.sources[SOURCE], [b"a b"])
        receiver.wait_for(2)
        (gateway,) = processes(running, " wallaroo gateway ")
        os.kill(gateway, signal.SIGSTOP)  # so that it writes nothing more
        (segment,) = (tmp_path / "log").iterdir()
        segment.write_bytes(b"scribbled over")
        os.kill(gateway, signal.SIGKILL)
        assert running.process.wait(PATIENCE_S) == 1
    last = str(running.events[-1]["event"])
    lost = "messages 0 to 0, which were accepted, are missing"
    assert f"{tmp_path / 'log'} is damaged: {lost}" in last
    assert "restore the log and the checkpoint" in last
    assert not [event for event in running.events if "Traceback" in event["event"]]
