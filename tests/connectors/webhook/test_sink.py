"""Outputs as requests, over real sockets: in order, until the receiver has them."""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.connectors.publishing import PublishingOutbox
from tests.connectors.webhook.receiver import Receiver, Reply, Request
from tests.gateway.harness import NOWHERE, Authority
from tests.helpers import PATIENCE_S, free_address, wait_until
from wallaroo.connectors import threads
from wallaroo.connectors.kafka.dead_letters import record_of_letter
from wallaroo.connectors.kafka.stored import WHOLE, value_of
from wallaroo.connectors.webhook import sink as module
from wallaroo.connectors.webhook.resolve import WebhookSink
from wallaroo.connectors.webhook.sink import WebhookSinkWriter
from wallaroo.metrics import catalogue
from wallaroo.model.lost_messages import LostMessage
from wallaroo.wire.records import FailedMessage
from wallaroo.wire.refusals import guarded, refusal


class Posting(PublishingOutbox):
    """An outbox and the sink that posts its outputs; may be stopped and started."""

    def __init__(self, path: Path, url: str, tls: ssl.SSLContext | None = None, **how: Any) -> None:
        super().__init__(path)
        self._tls = tls
        self.sink = replace(WebhookSink("hook", bytes, NOWHERE, url), **how)
        self.failures: list[Exception] = []
        self.start()

    def start(self) -> None:
        self.open()
        self.writer = WebhookSinkWriter(
            replace(self.context, sink_tls=self._tls, on_failure=self.failures.append), 0, self.sink
        )

    def stop(self) -> None:
        self.writer.stop()
        self.close()
        assert not self.failures

    def fails(self) -> bool:
        return self.writer.problem is not None

    def answered(self) -> dict[str, Any]:
        samples = list(self.writer.samples())
        assert {sample.metric for sample in samples} <= {catalogue.WEBHOOK_REQUESTS}
        return {sample.labels[1]: sample.value for sample in samples}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_WAIT_S", 0.01)
    monkeypatch.setattr(module, "RETRY_FIRST_S", 0.001)
    monkeypatch.setattr(module, "RETRY_MOST_S", 0.01)
    monkeypatch.setattr(module, "STOP_S", 0.5)
    monkeypatch.setattr(threads, "STOP_S", 0.5)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


def test_each_output_is_posted_with_its_number_over_one_connection(
    receiver: Receiver, tmp_path: Path
) -> None:
    posting = Posting(tmp_path, f"{receiver.url}/in?a=b")
    posting.publish(b'{"a": 1}', b"")
    posting.publish(b"c")
    posting.wait_until_delivered()
    assert receiver.bodies == [b'{"a": 1}', b"", b"c"]
    series = posting.outbox.numbering(posting.writer._sink.name)
    assert [one.key for one in receiver.requests] == [f"{series}-{n}" for n in (1, 2, 3)]
    assert {one.path for one in receiver.requests} == {"/in?a=b"}
    assert {one.headers["content-type"] for one in receiver.requests} == {"application/json"}
    assert receiver.connections == 1
    assert posting.answered() == {"2xx": 3}
    posting.stop()


@pytest.mark.parametrize(
    ("batch_format", "bodies"),
    [("lines", [b"1\n2\n3\n", b"4\n", b"5\n"]), ("array", [b"[1\n,2,3]", b"[4]", b"[5]"])],
)
def test_batches_take_outputs_of_one_delivery(
    receiver: Receiver, tmp_path: Path, batch_format: str, bodies: list[bytes]
) -> None:
    posting = Posting(tmp_path, receiver.url, batch=3, batch_format=batch_format)
    posting.publish(b"1\n", b"2", b"3", b"4")
    posting.publish(b"5")
    posting.wait_until_delivered()
    assert receiver.bodies == bodies
    series = posting.outbox.numbering(posting.writer._sink.name)
    keys = [f"{series}-1-3", f"{series}-4", f"{series}-5"]
    assert [one.key for one in receiver.requests] == keys
    posting.stop()


def test_a_request_is_repeated_with_its_key_until_it_succeeds(tmp_path: Path) -> None:
    troubles: list[Reply | None] = [
        *(Reply(500), None, Reply(429, headers=(("Retry-After", "0"),)), Reply(404)),
        *(Reply(302, headers=(("Location", "/x"),)), Reply(401), Reply(503, b"x" * 200_000)),
    ]
    asked = list(troubles)
    with Receiver(lambda _: asked.pop(0) if asked else Reply(204, b"")) as receiver:
        posting = Posting(tmp_path, receiver.url)
        posting.publish(b"a", b"b")
        posting.wait_until_delivered()
        keys = [one.key for one in receiver.requests]
        assert len(set(keys[: len(troubles) + 1])) == 1
        assert set(receiver.bodies[:-1]) == {b"a"}
        assert receiver.bodies[-1] == b"b"
        answered = posting.answered()
        assert (answered["5xx"], answered["4xx"], answered["3xx"]) == (2, 3, 1)
        assert answered["2xx"] == 2
        assert posting.writer.problem is None
        assert posting.letters() == []
        posting.stop()


def test_outputs_wait_while_nobody_listens_and_the_reason_is_shown(tmp_path: Path) -> None:
    address = free_address()
    with capture_logs() as logs:
        posting = Posting(tmp_path, f"http://{address}/in?secret=1")
        posting.publish(b"a")
        wait_until(lambda: posting.writer.problem, "a failure")
        assert "Connection refused" in str(posting.writer.problem)
        with Receiver(port=int(address.rpartition(":")[2])) as receiver:
            posting.wait_until_delivered()
            assert receiver.bodies == [b"a"]
            assert posting.writer.problem is None
        posting.stop()
    (first, *_) = [one for one in logs if one["event"] == "sink failed"]
    assert (first["sink"], first["posts_to"]) == ("hook", f"http://{address}/in")
    assert first["outputs"] == "wait on disk"


def test_what_is_refused_becomes_a_dead_letter_and_the_rest_goes_on(tmp_path: Path) -> None:
    def refuse(request: Request) -> Reply:
        return Reply(422, b"no\x00 such\nitem") if b"bad" in request.body else Reply()

    with Receiver(refuse) as receiver:
        posting = Posting(tmp_path, receiver.url, batch=8)
        posting.publish(*[b"bad" if n in {3, 6} else b"%d" % n for n in range(8)])
        posting.publish(b"more", b"with\na line feed")
        posting.wait_until_delivered()
        one, two, three = posting.letters()
        assert (one.payload, one.step, one.place) == (b"bad", "sink hook", "output 4")
        phrase = HTTPStatus(422).phrase  # which Python 3.13 has changed
        assert one.error == f"the receiver answered 422 {phrase}: no… such item"
        assert (two.place, three.place) == ("output 7", "output 10")
        assert three.error == "it has a line feed, and so cannot be a line of a batch"
        accepted = [one.body for one in receiver.requests if b"bad" not in one.body]
        assert b"".join(accepted) == b"0\n1\n2\n4\n5\n7\nmore\n"
        assert posting.outbox.of_sink(0) == (7, 0)
        posting.stop()


@pytest.mark.parametrize("mark", [WHOLE, bytes(refusal("no")), bytes(guarded(WHOLE))])
def test_a_dead_letter_has_its_output_whatever_it_begins_with(mark: bytes, tmp_path: Path) -> None:
    with Receiver(lambda _: Reply(422)) as receiver:
        posting = Posting(tmp_path, receiver.url)
        posting.publish(mark + b"\0x")
        posting.wait_until_delivered()
        (letter,) = posting.letters()
        posting.stop()
    assert letter.payload is not None
    failed = FailedMessage("", letter.step, letter.place, letter.error, letter.message)
    record = record_of_letter(LostMessage("Shop", failed, 1, None, letter.payload))
    assert value_of(letter.payload) == record.value == mark + b"\0x"
    assert dict(record.headers)["wallaroo.place"] == b"output 1"


def test_what_is_refused_may_wait_instead(tmp_path: Path) -> None:
    with Receiver(lambda _: Reply(400)) as receiver:
        posting = Posting(tmp_path, receiver.url, sets_aside=False)
        posting.publish(b"a")
        wait_until(lambda: len(receiver.requests) > 5, "several requests")
        receiver.answers = lambda _: Reply()
        posting.wait_until_delivered()
        assert posting.letters() == []
        posting.stop()


def test_after_so_many_answers_an_output_is_set_aside(tmp_path: Path) -> None:
    def fail(request: Request) -> Reply:
        return Reply(500) if request.body == b"bad" else Reply()

    with Receiver(fail) as receiver:
        posting = Posting(tmp_path, receiver.url, attempts=3)
        posting.publish(b"bad", b"good")
        posting.wait_until_delivered()
        assert receiver.bodies == [b"bad"] * 3 + [b"good"]
        (letter,) = posting.letters()
        assert letter.error == "the receiver answered 500 Internal Server Error: ok"
        posting.stop()


def test_secrets_are_sent_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_PATH", "T0/secret-path")
    monkeypatch.setenv("HOOK_KEY", "secret-key")
    (tmp_path / "headers").write_text("# ours\nAuthorization: Bearer secret-token\n\n")

    def echo(request: Request) -> Reply:
        return Reply(500, f"{request.path} {request.headers}".encode())

    with capture_logs() as logs, Receiver(echo) as receiver:
        posting = Posting(
            tmp_path,
            f"{receiver.url}/${{HOOK_PATH}}",
            headers={"X-Key": "${HOOK_KEY}", "X-Team": "shop"},
            headers_file=tmp_path / "headers",
        )
        posting.publish(b"a")
        wait_until(lambda: posting.writer.problem, "a failure")
        shown = str(posting.writer.problem)
        receiver.answers = lambda _: Reply(422, b"secret-token is expired")
        posting.wait_until_delivered()
        request = receiver.requests[-1]
        letters = str(posting.letters())
        posting.stop()
    assert request.path == "/T0/secret-path"
    assert request.headers["authorization"] == "Bearer secret-token"
    assert (request.headers["x-key"], request.headers["x-team"]) == ("secret-key", "shop")
    assert "the receiver answered 500" in shown
    for text in (shown, str(logs), letters):
        assert "secret-" not in text
    assert "shop" in shown


def test_a_certificate_must_be_trusted_and_of_that_name(tmp_path: Path) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    files = ours.files(trusts=ours)
    serving, knowing = files.serving(), files.connecting()
    with Receiver(tls=serving) as receiver:
        distrusting = Posting(
            tmp_path / "distrusting.db", receiver.url, other.files(trusts=other).connecting()
        )
        unconfigured = Posting(tmp_path / "unconfigured.db", receiver.url)
        trusting = Posting(tmp_path / "trusting.db", receiver.url, knowing)
        for posting in (distrusting, unconfigured, trusting):
            posting.publish(b"secret")
        trusting.wait_until_delivered()
        for posting in (distrusting, unconfigured):
            wait_until(posting.fails, "a failure")
            assert "the receiver's certificate is not trusted" in str(posting.writer.problem)
        assert receiver.bodies == [b"secret"]
        for posting in (distrusting, unconfigured, trusting):
            posting.stop()


def test_a_receiver_that_does_not_answer_is_not_waited_for_at_a_stop(tmp_path: Path) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def hang(_request: Request) -> Reply:
        asked.set()
        go_on.wait(PATIENCE_S)
        return Reply()

    with Receiver(hang) as receiver:
        posting = Posting(tmp_path, receiver.url)
        posting.publish(b"a")
        assert asked.wait(PATIENCE_S)
        posting.stop()
        assert not posting.writer._thread.is_alive()
        go_on.set()
        posting.start()
        posting.wait_until_delivered()
        assert len({one.key for one in receiver.requests}) == 1
        posting.stop()


def test_a_receiver_that_takes_too_long_is_asked_again(tmp_path: Path) -> None:
    go_on = threading.Event()

    def hang(_request: Request) -> Reply:
        go_on.wait(PATIENCE_S)
        return Reply()

    with Receiver(hang) as receiver:
        posting = Posting(tmp_path, receiver.url, timeout_s=0.1)
        posting.publish(b"a")
        wait_until(lambda: posting.writer.problem, "a failure")
        assert posting.writer.problem == "the receiver did not answer in time"
        go_on.set()
        posting.wait_until_delivered()
        posting.stop()


def test_a_connection_that_the_receiver_has_closed_is_opened_again(tmp_path: Path) -> None:
    closing = (("Connection", "close"),)
    with Receiver(lambda _: Reply(headers=closing)) as receiver, capture_logs() as logs:
        posting = Posting(tmp_path, receiver.url)
        posting.publish(b"a", b"b", b"c")
        posting.wait_until_delivered()
        assert receiver.connections == 3
        assert not [one for one in logs if one["event"] == "sink failed"]
        posting.stop()


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=4),
    st.integers(1, 4),
    st.lists(st.integers(0, 12), max_size=4),
    st.sets(st.integers(1, 20), max_size=3),
)
def test_after_stops_anywhere_all_is_there_in_order_and_repeats_have_the_same_key(
    tmp_path_factory: pytest.TempPathFactory,
    deliveries: list[int],
    batch: int,
    stops: list[int],
    bad: set[int],
) -> None:
    def answer(request: Request) -> Reply | None:
        if len(receiver.requests) in stop_at:  # it gets no answer, as if the gateway had died
            stopped.set()
            return None
        lines = [int(line) for line in request.body.split()]
        return Reply(422) if bad & {*lines} else Reply()

    stop_at, stopped = {*stops}, threading.Event()
    path = tmp_path_factory.mktemp("stops")
    with Receiver(answer) as receiver:
        posting = Posting(path, receiver.url, batch=batch)
        number = 1
        for count in deliveries:
            posting.publish(*[b"%d" % n for n in range(number, number + count)])
            number += count

        def is_done() -> bool:
            return not posting.outbox.undelivered

        while not is_done():
            wait_until(lambda: stopped.is_set() or is_done(), "progress")
            if stopped.is_set():
                stopped.clear()
                posting.stop()
                posting.start()
        letters = [letter.payload for letter in posting.letters()]
        posting.stop()
    assert letters == [b"%d" % n for n in sorted(bad) if n < number]
    of_key: dict[str, bytes] = {}
    for request in receiver.requests:
        assert of_key.setdefault(request.key, request.body) == request.body
        assert [int(line) for line in request.body.split()] == [*request.numbers]
    accepted = [
        int(line)
        for body in of_key.values()
        for line in body.split()
        if not bad & {int(one) for one in body.split()}
    ]
    assert accepted == [n for n in range(1, number) if n not in bad]


def test_bodies_of_arrays_are_json(receiver: Receiver, tmp_path: Path) -> None:
    posting = Posting(tmp_path, receiver.url, batch=9, batch_format="array")
    made = [json.dumps({"text": "a\nb", "n": n}, indent=1).encode() for n in range(3)]
    posting.publish(*made)
    posting.wait_until_delivered()
    assert json.loads(receiver.bodies[0])[2] == {"text": "a\nb", "n": 2}
    assert re.fullmatch(r"[0-9a-f]{32}-[0-9a-f]{12}-1-3", receiver.requests[0].key)
    posting.stop()
