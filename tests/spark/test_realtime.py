"""The tests of the micro-batch engine that the real-time engine passes, and its own."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers import KILLING, wait_until
from tests.spark.harness import APPS, PATIENCE_S, Receiver, frame, processes, run, send
from tests.spark.test_market_spread import (
    demo,
    spread,
    test_an_unknown_symbol_is_dropped_and_said_once,
    test_interleaved_streams_give_the_oracles_results,
    test_senders_the_wrong_way_round_are_told_so,
)
from tests.spark.test_restart import (
    test_sigkill_of_the_driver_in_mid_stream_loses_and_doubles_nothing,
    test_sigterm_in_mid_stream_drains_and_the_restart_goes_on_exactly,
)
from tests.spark.test_word_count import (
    counting,
    test_a_connection_cut_in_mid_frame_keeps_its_complete_messages,
    test_a_payload_of_no_bytes_is_an_empty_message,
    test_a_payload_that_does_not_decode_is_set_aside,
    test_four_senders_at_once_lose_nothing,
    test_totals_of_a_text_are_exact,
)
from wallaroo.engine.registry import VARIABLE
from wallaroo.run.background_run import BackgroundRun

__all__ = [  # tests and fixtures of other modules, which run here on this engine
    "counting",
    "demo",
    "spread",
    "test_a_connection_cut_in_mid_frame_keeps_its_complete_messages",
    "test_a_payload_of_no_bytes_is_an_empty_message",
    "test_a_payload_that_does_not_decode_is_set_aside",
    "test_an_unknown_symbol_is_dropped_and_said_once",
    "test_four_senders_at_once_lose_nothing",
    "test_interleaved_streams_give_the_oracles_results",
    "test_senders_the_wrong_way_round_are_told_so",
    "test_sigkill_of_the_driver_in_mid_stream_loses_and_doubles_nothing",
    "test_sigterm_in_mid_stream_drains_and_the_restart_goes_on_exactly",
    "test_totals_of_a_text_are_exact",
]
pytestmark = pytest.mark.spark

SOURCE = "Split and Count"
WORDS = 20_000


@pytest.fixture(autouse=True, scope="module")
def real_time() -> Iterator[None]:
    """All runs of this module are on the real-time engine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "real-time")
        yield


def _killed(part: str) -> Callable[[BackgroundRun], None]:
    def kill(running: BackgroundRun) -> None:
        for pid in processes(running, part):
            os.kill(pid, signal.SIGKILL)

    return kill


@pytest.mark.parametrize(
    ("part", "ends"),
    [
        ("realtime.process", False),  # the first stage and all partitions
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


def test_a_poisonous_message_becomes_a_dead_letter(tmp_path: Path) -> None:
    with (
        Receiver("u32") as receiver,
        run(KILLING, receiver, tmp_path / "state") as running,
    ):
        send(running.sources["in"], [b"a", b"kill", b"b"])
        assert sorted(receiver.wait_for(2)) == [frame(b"a1"), frame(b"b1")]
        send(running.sources["in"], [b"a"])
        assert receiver.wait_for(3)[-1] == frame(b"a2")
        client = running.client
        assert client is not None
        wait_until(lambda: client.status().dead_letters == 1, "the dead letter")
        assert running.stop() == 0
