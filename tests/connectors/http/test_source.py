"""Sources that take messages by POST, over real sockets."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from tests.gateway.harness import NOWHERE, Authority
from tests.gateway.store_loop import Loop, StoreLoop, no_syncs
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.connectors.http import requests, server
from wallaroo.connectors.http.resolve import HTTPSource
from wallaroo.connectors.http.source import HTTPSources
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.http import serving
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.limits import SourceLimits
from wallaroo.gateway.store import StoreLimits
from wallaroo.wire.framing import Framing

FRAMING = Framing(4, ">I", max_frame=100)
KEY = {"Idempotency-Key": "8e03978e-40d5-43e8-bc93-6894a57f9324"}
NDJSON = {"Content-Type": "application/x-ndjson; charset=utf-8"}


class Answer(NamedTuple):
    status: int
    text: str
    headers: http.client.HTTPMessage


class Running:
    """A source and the journal that it fills."""

    def __init__(
        self,
        directory: Path,
        limits: JournalLimits | None = None,
        senders: SourceLimits | None = None,
        tls: ssl.SSLContext | None = None,
        origins: tuple[str, ...] = (),
    ) -> None:
        self._loop = StoreLoop(directory, limits=StoreLimits(limits or JournalLimits()))
        self.store = self._loop.store
        self.journal = self.store.journal
        source = HTTPSource("orders", FRAMING, bytes, NOWHERE, "127.0.0.1", 0, "/in", origins)
        self.context = ConnectorContext(
            self.journal, self.store.outbox, senders or SourceLimits(), tls
        )
        self.sources = HTTPSources(self.context, {0: source})
        self.journal.on_room = self.sources.on_room
        self.journal.on_accepted = self.sources.on_accepted
        self._loop.run(self.sources.start())
        self.address = self.sources.addresses[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()
        self._loop.close()

    def stop(self) -> None:
        self._loop.run(self.sources.stop())

    def client(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self.address, timeout=PATIENCE_S)

    def post(self, body: bytes, headers: dict[str, str] | None = None) -> Answer:
        with contextlib.closing(self.client()) as client:
            return ask(client, "POST", "/in", body, headers)

    def payloads(self) -> list[bytes]:
        blocks = self.journal.read(0, self.journal.end)
        return [p for block in blocks for p in FRAMING.split(block.data)]


def ask(
    client: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    client.request(method, path, body, headers or {})
    answer = client.getresponse()
    return Answer(answer.status, answer.read().decode(), answer.headers)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as made:
        yield made


def test_a_body_is_a_message_which_is_on_disk_when_it_is_answered(running: Running) -> None:
    for number in range(3):
        assert running.post(b"order\n%d" % number)[:2] == (202, "1 accepted\n")
        assert running.payloads()[number:] == [b"order\n%d" % number]


def test_a_target_in_absolute_form_is_that_of_its_path(running: Running) -> None:
    with contextlib.closing(running.client()) as client:
        for target in ("http://a.example/in", "HTTPS://a.example:7010/in?key=1", "http:///%69n"):
            assert ask(client, "POST", target, b"x")[:2] == (202, "1 accepted\n")
        for target in ("http://a.example", "http://a.example/", "ftp://a.example/in", "//a/in"):
            assert ask(client, "POST", target, b"x").status == 404
    assert running.payloads() == [b"x"] * 3


def test_each_line_of_ndjson_is_a_message_and_empty_lines_are_none(running: Running) -> None:
    answer = running.post(b'{"a": 1}\n\r\n{"b": 2}\r\n{"c": 3}', NDJSON)
    assert answer[:2] == (202, "3 accepted\n")
    assert running.payloads() == [b'{"a": 1}', b'{"b": 2}', b'{"c": 3}']


def test_a_connection_takes_request_after_request(running: Running) -> None:
    with contextlib.closing(running.client()) as client:
        assert ask(client, "GET", "/in").status == 405
        for number in range(20):
            assert ask(client, "POST", "/in", b"%d" % number).status == 202
        assert running.sources.connections == 1
    assert running.payloads() == [b"%d" % number for number in range(20)]


def test_what_is_no_message_is_refused_in_words(running: Running) -> None:
    with contextlib.closing(running.client()) as client:
        wrong = ask(client, "POST", "/out", b"x")
        assert wrong[:2] == (404, "There is nothing at this path; send messages to /in.\n")
    with contextlib.closing(running.client()) as client:
        wrong = ask(client, "GET", "/in")
        assert wrong[:2] == (405, "Send messages by POST.\n")
        assert wrong.headers["Allow"] == "POST"
    assert running.post(b"")[:2] == (400, "The body is empty; it must be a message.\n")
    no_lines = (400, "The body has no lines; each must be a message.\n")
    assert running.post(b"\n\n", NDJSON)[:2] == no_lines
    encoded = running.post(b"x", {"Content-Encoding": "gzip"})
    assert encoded[:2] == (415, "Send bodies without a Content-Encoding.\n")
    assert running.journal.end == 0


PREFLIGHT = {"Access-Control-Request-Method": "POST"}


def test_pages_of_other_sites_send_nothing(running: Running) -> None:
    host, port = running.address
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null", "Content-Type": "text/plain"},
        {"Origin": ""},
        {"Origin": f"http://evil.example:{port}", "Host": f"evil.example:{port}"},
    ):
        refused = running.post(b"x", headers)
        reason = "may not send messages; origins= of the source adds one.\n"
        page = headers["Origin"] or "an empty origin"
        assert refused[:2] == (403, f"Pages of {page} {reason}")
        assert "Access-Control-Allow-Origin" not in refused.headers
    with contextlib.closing(running.client()) as client:
        asked = ask(client, "OPTIONS", "/in", None, {"Origin": "https://evil.example"} | PREFLIGHT)
    assert asked.status == 403
    assert running.journal.end == 0
    assert running.post(b"x", {"Origin": f"http://{host}:{port}"}).status == 202
    assert running.post(b"x", {"Host": "orders.example.org"}).status == 202  # no browser


def test_pages_of_allowed_origins_send_and_read_answers(tmp_path: Path) -> None:
    page = "https://shop.example.org"
    with Running(tmp_path, origins=(page,)) as running:
        with contextlib.closing(running.client()) as client:
            asked = ask(client, "OPTIONS", "/in", None, {"Origin": page} | PREFLIGHT)
            assert (asked.status, asked.text) == (204, "")
            assert asked.headers["Access-Control-Allow-Origin"] == page
            assert asked.headers["Access-Control-Allow-Methods"] == "POST"
            allowed = asked.headers["Access-Control-Allow-Headers"]
            assert allowed == "content-type, idempotency-key"
            assert ask(client, "OPTIONS", "/out", None, {"Origin": page} | PREFLIGHT).status == 404
            assert ask(client, "OPTIONS", "/in", None, {"Origin": page}).status == 405
        for answer in (running.post(b"x", {"Origin": page}), running.post(b"", {"Origin": page})):
            assert answer.headers["Access-Control-Allow-Origin"] == page
            assert answer.headers["Vary"] == "Origin"
        assert running.post(b"x", {"Origin": "https://evil.example"}).status == 403
        assert running.payloads() == [b"x"]


def test_a_body_over_the_limit_is_refused_with_and_without_its_length(running: Running) -> None:
    assert running.post(b"x" * 100).status == 202
    over = running.post(b"x" * 101)
    assert over[:2] == (413, "The body has 101 bytes; the limit is 100.\n")
    with contextlib.closing(running.client()) as client:
        client.request("POST", "/in", iter([b"x" * 60, b"x" * 60]), encode_chunked=True)
        assert client.getresponse().status == 413
    assert running.payloads() == [b"x" * 100]


def test_a_body_with_more_lines_than_the_limit_is_refused(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "MOST_LINES", 3)
    assert running.post(b"a\nb\nc\n", headers=NDJSON).text == "3 accepted\n"
    assert running.post(b"a\nb\nc", headers=NDJSON).text == "3 accepted\n"
    for body in (b"a\nb\nc\nd", b"\n\n\n\n"):
        assert running.post(body, headers=NDJSON)[:2] == (
            413,
            "The body has 4 lines; the limit is 3: send several requests.\n",
        )
    assert running.payloads() == [b"a", b"b", b"c"] * 2


def test_nobody_is_answered_before_the_disk_has_the_messages(running: Running) -> None:
    answers: list[Answer] = []
    post = threading.Thread(target=lambda: answers.append(running.post(b"slow")))
    with no_syncs(running.store):
        post.start()
        wait_until(lambda: running.journal._buffer.waiting_bytes > 0, "the message")
        assert not answers
        assert running.journal.end == 0
    post.join(PATIENCE_S)
    assert [answer.status for answer in answers] == [202]
    assert running.payloads() == [b"slow"]


def test_clients_are_told_to_wait_while_the_journal_is_full(tmp_path: Path) -> None:
    with Running(tmp_path, JournalLimits(disk_bytes=150)) as running:
        assert running.post(b"x" * 100).status == 202
        assert running.post(b"y" * 100).status == 202  # this one fills it
        full = running.post(b"z" * 100)
        assert full.status == 429
        assert full.headers["Retry-After"] == "1"
        assert running.journal.end == 2
        running.journal.consume(2)
        wait_until(lambda: running.post(b"z" * 100).status == 202, "room in the journal")


def test_many_clients_at_once_are_each_answered(running: Running) -> None:
    def post(client: int) -> None:
        with contextlib.closing(running.client()) as connection:
            for number in range(25):
                body = b"%d %d" % (client, number)
                assert ask(connection, "POST", "/in", body).status == 202

    clients = [threading.Thread(target=post, args=(client,)) for client in range(8)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(PATIENCE_S)
    payloads = running.payloads()
    for number in range(8):
        mine = [payload for payload in payloads if payload.startswith(b"%d " % number)]
        assert mine == [b"%d %d" % (number, count) for count in range(25)]


def test_a_stop_answers_what_was_taken_and_a_new_start_continues(tmp_path: Path) -> None:
    for start in range(3):  # numbers of the stream go on
        with Running(tmp_path) as running:
            assert running.post(b"%d" % start).status == 202
            running.stop()
            with pytest.raises(ConnectionRefusedError):
                running.post(b"late")
            assert running.payloads() == [b"%d" % number for number in range(start + 1)]


def test_a_stop_cuts_off_half_a_body_and_logs_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serving, "_STOP_S", 0)
    with (
        Running(tmp_path) as running,
        socket.create_connection(running.address, PATIENCE_S) as connection,
    ):
        connection.sendall(b"POST /in HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhal")
        wait_until(lambda: running.sources.connections, "the connection")
        running.stop()
        assert running.journal.end == 0
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_body_that_does_not_come_is_not_waited_for_without_end(tmp_path: Path) -> None:
    limits = SourceLimits(frame_s=0.1)
    with (
        Running(tmp_path, senders=limits) as running,
        socket.create_connection(running.address, PATIENCE_S) as connection,
    ):
        connection.sendall(b"POST /in HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhal")
        assert connection.recv(12) == b"HTTP/1.1 408"
        assert running.journal.end == 0


@pytest.mark.parametrize("requests", [0, 1])
@pytest.mark.parametrize("sent", [b"", b"POST /in HTTP/1.1\r\nHost:"])
def test_a_head_that_does_not_come_is_not_waited_for_without_end(
    tmp_path: Path, requests: int, sent: bytes
) -> None:
    limits = SourceLimits(frame_s=0.1, idle_s=1)
    with (
        Running(tmp_path, senders=limits) as running,
        contextlib.closing(running.client()) as client,
    ):
        client.connect()
        for _ in range(requests):
            assert ask(client, "POST", "/in", b"one").status == 202
        client.sock.sendall(sent)
        assert client.sock.recv(1) == b""
        assert running.journal.end == requests


def test_a_client_that_leaves_in_mid_body_leaves_no_message(running: Running) -> None:
    with socket.create_connection(running.address, PATIENCE_S) as connection:
        connection.sendall(b"POST /in HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhal")
    wait_until(lambda: not running.sources.connections, "the end of the connection")
    assert running.post(b"next").status == 202
    assert running.payloads() == [b"next"]


def test_a_source_speaks_tls(tmp_path: Path) -> None:
    files = Authority(tmp_path, "one")
    tls = files.files(trusts=files)
    with Running(tmp_path, tls=tls.serving()) as running:
        secret = http.client.HTTPSConnection(
            *running.address, timeout=PATIENCE_S, context=tls.connecting()
        )
        with contextlib.closing(secret):
            assert ask(secret, "POST", "/in", b"secret").status == 202
        assert running.payloads() == [b"secret"]


def test_an_address_in_use_is_named(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        host, port = running.address
        source = HTTPSource("more", FRAMING, bytes, NOWHERE, host, port, "/")
        loop = Loop()
        with pytest.raises(RuntimeFailure, match=f"source 'more' cannot listen on {host}:{port}"):
            loop.run(HTTPSources(running.context, {1: source}).start())
        loop.close()


def test_room_that_comes_before_the_journal_is_known_to_be_full_is_not_missed(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = running.journal.submit

    def full_for_a_moment(*arguments: Any, **keywords: Any) -> bool:
        assert submit(*arguments, **keywords)
        running.sources.on_room()
        return False

    with monkeypatch.context() as patch:
        patch.setattr(running.journal, "submit", full_for_a_moment)
        assert running.post(b"one").status == 202
    assert running.post(b"two").status == 202


def test_a_request_that_is_repeated_with_its_key_is_accepted_once(running: Running) -> None:
    first = running.post(b"order", KEY)
    assert first[:2] == (202, "1 accepted\n")
    assert "Idempotent-Replayed" not in first.headers
    again = running.post(b"order", KEY)
    assert again[:2] == (202, "1 accepted\n")
    assert again.headers["Idempotent-Replayed"] == "true"
    assert running.post(b"another order", KEY).status == 422
    assert running.post(b"order", {"Idempotency-Key": "another"}).status == 202
    assert running.post(b"order").status == 202  # without a key, each request counts
    assert running.payloads() == [b"order"] * 3


def test_the_key_of_a_batch_stands_for_all_of_its_messages(running: Running) -> None:
    for _ in range(2):
        assert running.post(b"a\nb\n", KEY | NDJSON)[:2] == (202, "2 accepted\n")
    used = (422, "This Idempotency-Key was used for other messages.\n")
    assert running.post(b"a\nb\nc\n", KEY | NDJSON)[:2] == used
    assert running.payloads() == [b"a", b"b"]


@pytest.mark.parametrize("key", ["", "k" * 256], ids=["empty", "too long"])
def test_a_key_that_is_none_is_refused(running: Running, key: str) -> None:
    refused = running.post(b"order", {"Idempotency-Key": key})
    assert refused[:2] == (400, "An Idempotency-Key has 1 to 255 characters.\n")
    assert running.journal.end == 0


def test_keys_are_known_after_a_restart(tmp_path: Path) -> None:
    with Running(tmp_path) as before:
        assert before.post(b"a\nb", KEY | NDJSON).status == 202
    with Running(tmp_path) as after:
        again = after.post(b"a\nb", KEY | NDJSON)
        assert again[:2] == (202, "2 accepted\n")
        assert again.headers["Idempotent-Replayed"] == "true"
        assert after.payloads() == [b"a", b"b"]


def test_the_oldest_keys_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_KEYS", 2)
    keys = [{"Idempotency-Key": f"key {number}"} for number in range(3)]
    with Running(tmp_path) as before:
        for key in keys:
            before.post(b"x", key)
        assert len(before.journal.request_keys(0)) == 2
    with Running(tmp_path) as after:
        answers = [after.post(b"x", key) for key in reversed(keys)]
        replayed = [answer.headers.get("Idempotent-Replayed") for answer in answers]
        assert replayed == ["true", "true", None]
        assert after.payloads() == [b"x"] * 4


def test_a_repeated_request_waits_for_the_disk_like_the_first(running: Running) -> None:
    answers: list[Answer] = []
    posts = [
        threading.Thread(target=lambda: answers.append(running.post(b"slow", KEY)))
        for _ in range(3)
    ]
    with no_syncs(running.store):
        for post in posts:
            post.start()
        wait_until(lambda: running.sources.connections == len(posts), "the requests")
        wait_until(lambda: running.journal._buffer.waiting_bytes > 0, "the message")
        assert not answers
    for post in posts:
        post.join(PATIENCE_S)
    assert [answer.status for answer in answers] == [202] * 3
    replayed = [answer.headers.get("Idempotent-Replayed") == "true" for answer in answers]
    assert sorted(replayed) == [False, True, True]
    assert running.payloads() == [b"slow"]
