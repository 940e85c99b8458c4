"""A gateway that is killed while clients post has every message that it answered with 202."""

from __future__ import annotations

import contextlib
import http.client
import tempfile
import threading
from functools import partial
from pathlib import Path

from tests.gateway.connectors.child_gateway import child_gateway
from tests.gateway.harness import U32, messages
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.dataflow.records import JOURNAL

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


def test_what_was_answered_is_there_once_after_kills_between_acceptance_and_answer() -> None:
    answered: list[bytes] = []
    sent: list[bytes] = []

    def post(turn: int, number: int, host: str, port: int) -> None:
        client = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
        with contextlib.closing(client), contextlib.suppress(OSError, http.client.HTTPException):
            for count in range(100_000):  # until the kill
                body = b"%d %d %d" % (turn, number, count)
                sent.append(body)
                client.request("POST", "/", body)
                assert client.getresponse().read() == b"1 accepted\n"
                answered.append(body)

    with tempfile.TemporaryDirectory() as name:  # short, as the name of a Unix socket must be
        directory = Path(name)
        (directory / "app.py").write_text(APP)
        for turn in range(KILLS):
            with child_gateway(directory) as (client, process):
                host, _, port = client.status().sources[0].where.rpartition(":")
                posts = [
                    threading.Thread(target=post, args=(turn, number, host, int(port)))
                    for number in range(4)
                ]
                due = len(answered) + ANSWERS
                for one in posts:
                    one.start()
                wait_until(partial(has, answered, due), "answers")
                process.kill()
                for one in posts:
                    one.join(PATIENCE_S)
        with child_gateway(directory) as (client, _):
            client.stop_accepting()
            end = client.latest({JOURNAL: 0}, 1 << 30, 1 << 30, 0.0).end[JOURNAL]
            stored = [
                payload
                for block in client.read(messages(0, end))
                for chunk in block
                for payload in U32.split(chunk.data)
            ]
    assert len(stored) == len(set(stored))
    assert set(answered) <= set(stored) <= set(sent)
    assert len(stored) - len(answered) <= 4 * KILLS  # those that were on their way
