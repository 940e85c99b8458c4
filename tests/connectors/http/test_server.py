"""A gateway that is killed while clients post has every message that it answered with 202.

Clients that repeat what was not answered, with its key, have every message accepted exactly once.
"""

from __future__ import annotations

import contextlib
import http.client
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.connectors.child_gateway import child_gateway
from tests.gateway.harness import U32
from tests.gateway.stand_in import journal_of
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.gateway.internal_api.client import GatewayClient

APP = """
import wallaroo

def application_setup(args):
    source = wallaroo.source("In", wallaroo.HTTPSourceConfig("127.0.0.1", 0, bytes.decode))
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str.encode))
    return wallaroo.build_application("kills", source.to_sink(sink))
"""
KILLS = 3
ANSWERS = 60
"""Answers that clients get before each kill."""


def has(answered: list[bytes], due: int) -> bool:
    return len(answered) >= due


def address(client: GatewayClient) -> tuple[str, int]:
    host, _, port = client.status().sources[0].where.rpartition(":")
    return host, int(port)


def kill_while_posting(
    client: GatewayClient,
    process: subprocess.Popen[bytes],
    post: Callable[[int, str, int], None],
    answered: list[bytes],
) -> None:
    """Let four threads post until *process* is killed, which it is after some answers."""
    posts = [threading.Thread(target=post, args=(number, *address(client))) for number in range(4)]
    due = len(answered) + ANSWERS
    for one in posts:
        one.start()
    wait_until(partial(has, answered, due), "answers")
    process.kill()
    for one in posts:
        one.join(PATIENCE_S)


@contextlib.contextmanager
def gateway_after_kills(
    post: Callable[[int, int, str, int], None], answered: list[bytes]
) -> Iterator[tuple[GatewayClient, Path]]:
    """A gateway whose predecessors were killed, one after the other, while threads posted.

    *post* gets the number of the predecessor, that of its thread, and the address.
    """
    with tempfile.TemporaryDirectory() as name:  # short, as the name of a Unix socket must be
        directory = Path(name)
        (directory / "app.py").write_text(APP)
        for turn in range(KILLS):
            with child_gateway(directory) as (client, process):
                kill_while_posting(client, process, partial(post, turn), answered)
        with child_gateway(directory) as (client, _):
            yield client, directory / "state"


def stored_in(client: GatewayClient, directory: Path) -> list[bytes]:
    client.stop_accepting()
    return [payload for chunk in journal_of(directory) for payload in U32.split(chunk.data)]


def post(host: str, port: int, body: bytes) -> bytes:
    client = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
    with contextlib.closing(client):
        client.request("POST", "/", body, {"Idempotency-Key": body.decode()})
        return client.getresponse().read()


def test_what_is_repeated_after_kills_is_accepted_exactly_once() -> None:
    answered: list[bytes] = []
    unanswered: deque[bytes] = deque()

    def post_until_killed(turn: int, number: int, host: str, port: int) -> None:
        for count in range(100_000):
            try:
                body = unanswered.popleft()
            except IndexError:
                body = b"%d %d %d" % (turn, number, count)
            try:
                assert post(host, port, body) == b"1 accepted\n"
            except (OSError, http.client.HTTPException):
                unanswered.append(body)
                return
            answered.append(body)

    with gateway_after_kills(post_until_killed, answered) as (client, state):
        answered += unanswered
        while unanswered:
            assert post(*address(client), unanswered.popleft()) == b"1 accepted\n"
        stored = stored_in(client, state)
    assert sorted(stored) == sorted(answered)


def test_what_was_answered_is_there_once_after_kills_between_acceptance_and_answer() -> None:
    answered: list[bytes] = []
    sent: list[bytes] = []

    def post_on(turn: int, number: int, host: str, port: int) -> None:
        client = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
        with contextlib.closing(client), contextlib.suppress(OSError, http.client.HTTPException):
            for count in range(100_000):  # until the kill
                body = b"%d %d %d" % (turn, number, count)
                sent.append(body)
                client.request("POST", "/", body)
                assert client.getresponse().read() == b"1 accepted\n"
                answered.append(body)

    with gateway_after_kills(post_on, answered) as (client, state):
        stored = stored_in(client, state)
    assert len(stored) == len(set(stored))
    assert set(answered) <= set(stored) <= set(sent)
    assert len(stored) - len(answered) <= 4 * KILLS  # those that were on their way
