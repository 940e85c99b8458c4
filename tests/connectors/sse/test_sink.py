"""Outputs as server-sent events, over real sockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.connectors.publishing import PublishingOutbox
from tests.gateway.harness import NOWHERE, Authority
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.connectors.sse import viewers as module
from wallaroo.connectors.sse.resolve import SSESink
from wallaroo.connectors.sse.sink import SSESinkServer
from wallaroo.errors import RuntimeFailure, UsageError, WallarooError
from wallaroo.metrics import catalogue
from wallaroo.system.token_attempts import Attempts

SINK = SSESink("prices", bytes, NOWHERE, "127.0.0.1", 0, "/prices")


TOKEN = "correct-horse-battery"


class Serving(PublishingOutbox):
    """An outbox and the sink that serves its outputs; may be stopped and started."""

    def __init__(
        self,
        path: Path,
        sink: SSESink = SINK,
        tls: ssl.SSLContext | None = None,
        batches: int = 0,
    ) -> None:
        super().__init__(path, batches)
        self._sink, self._tls = sink, tls
        self.clients: list[http.client.HTTPConnection] = []
        self.failures: list[Exception] = []
        self.start()

    def start(self) -> None:
        self.open()
        try:
            self.server = SSESinkServer(
                replace(self.context, source_tls=self._tls, on_failure=self.failures.append),
                0,
                self._sink,
            )
        except WallarooError:
            self.close()
            raise
        host, _, port = self.server.where.rpartition(":")
        self.address = host, int(port)

    def stop(self) -> None:
        for client in self.clients:
            client.close()
        self.server.stop()
        self.close()
        assert not self.failures

    def publish_and_wait(self, *made: bytes) -> None:
        self.publish(*made)
        wait_until(lambda: not self.outbox.undelivered, "the delivery")

    def ask(
        self, path: str = "/prices", method: str = "GET", **headers: str
    ) -> http.client.HTTPResponse:
        """The answer to a request."""
        client: http.client.HTTPConnection
        if self._tls is None:
            client = http.client.HTTPConnection(*self.address, timeout=PATIENCE_S)
        else:
            client = http.client.HTTPSConnection(
                *self.address, timeout=PATIENCE_S, context=TRUSTING[0]
            )
        self.clients.append(client)
        client.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        return client.getresponse()

    @contextlib.contextmanager
    def viewer(self, path: str = "/prices", **headers: str) -> Iterator[Viewer]:
        before = self.server._viewers.count
        with contextlib.closing(self.ask(path, **headers)) as answer:
            assert answer.status == 200, answer.read()
            wait_until(lambda: self.server._viewers.count > before, "the viewer")
            client = self.clients[-1]
            yield Viewer(answer)
        client.close()
        wait_until(lambda: self.server._viewers.count <= before, "the viewer's end")

    def metrics(self) -> dict[str, Any]:
        return {sample.metric.name: sample.value for sample in self.server.samples()}


TRUSTING: list[ssl.SSLContext] = []


class Viewer:
    """Reads events as a browser does."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self._answer = answer
        self.headers = answer.headers
        self.last = ""
        greeting = self.event()
        assert greeting.pop("retry") == "2000"
        assert set(greeting) <= {"id"}

    def event(self) -> dict[str, str]:
        """The fields of the next event; empty at the end."""
        fields: dict[str, str] = {}
        while line := self._answer.readline().decode():
            if line == "\n":
                break
            name, _, value = line.removesuffix("\n").partition(": ")
            fields[name] = f"{fields[name]}\n{value}" if name in fields else value
        self.last = fields.get("id", self.last)
        return fields

    def texts(self, count: int) -> list[str]:
        return [self.event()["data"] for _ in range(count)]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    made = Serving(tmp_path)
    yield made
    made.stop()


def test_viewers_get_outputs_from_then_on(serving: Serving) -> None:
    serving.publish_and_wait(b"before")
    with serving.viewer() as one, serving.viewer() as other:
        serving.publish(b"a", b"two\nlines", b"")
        serving.publish("è\n".encode())
        for viewer in (one, other):
            assert viewer.texts(4) == ["a", "two\nlines", "", "è\n"]
        assert one.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert one.headers["Cache-Control"] == "no-store"
        assert serving.metrics()[catalogue.SSE_VIEWERS.name] == 2
    assert serving.outbox.of_sink(0) == (5, 0)


def test_nobody_needs_to_watch(serving: Serving) -> None:
    serving.publish_and_wait(b"a", b"b")
    assert serving.outbox.of_sink(0) == (2, 0)


def test_events_may_have_a_name(tmp_path: Path) -> None:
    serving = Serving(tmp_path, replace(SINK, event="price"))
    with serving.viewer() as viewer:
        serving.publish(b"1")
        event = viewer.event()
        assert (event["event"], event["data"]) == ("price", "1")
    serving.stop()


@pytest.mark.parametrize("restart", [False, True])
def test_whoever_comes_back_gets_what_was_missed_from_any_output_on(
    serving: Serving, restart: bool
) -> None:
    made = [b"%d" % number for number in range(12)]
    with serving.viewer() as viewer:
        for start in range(0, 12, 3):
            serving.publish_and_wait(*made[start : start + 3])
        identifiers = [viewer.event()["id"] for _ in made]
    if restart:
        serving.stop()
        serving.start()
    for number, last in enumerate(identifiers):
        with serving.viewer(Last_Event_ID=last) as viewer:
            serving.publish(b"more %d" % number)
            due = [*made[number + 1 :], *(b"more %d" % n for n in range(number + 1))]
            assert viewer.texts(len(due)) == [one.decode() for one in due]


def test_whoever_comes_back_too_late_is_told_how_many_are_gone(tmp_path: Path) -> None:
    serving = Serving(tmp_path, replace(SINK, keep_bytes=1000))
    with serving.viewer() as viewer:
        serving.publish_and_wait(b"first")
        viewer.event()
        last = viewer.last
    for _ in range(20):
        serving.publish_and_wait(b"x" * 100)
    with serving.viewer(Last_Event_ID=last) as viewer:
        missed = viewer.event()
        assert missed["event"] == "missed"
        told = json.loads(missed["data"])
        assert told["missed"] + 2 == told["next"]
        event = viewer.event()
        assert event["data"] == "x" * 100
        assert event["id"].endswith(f"-{told['next']}")
    with serving.viewer(Last_Event_ID="another-7") as viewer:  # of another state directory
        missed = viewer.event()
        assert (missed["event"], missed["data"]) == ("missed", '{"missed": null, "next": 22}')
        serving.publish(b"new")
        assert viewer.texts(1) == ["new"]
    serving.stop()


@pytest.mark.parametrize("since", ["another-7", "first"])
def test_whoever_leaves_before_an_event_gets_all_that_comes_meanwhile(
    tmp_path: Path, since: str
) -> None:
    serving = Serving(tmp_path, replace(SINK, keep_bytes=1000))
    serving.publish_and_wait(b"gone")
    with serving.viewer() as viewer:
        last = viewer.last if since == "first" else since
    serving.publish_and_wait(*[b"x" * 100] * 20)
    with serving.viewer(Last_Event_ID=last) as viewer:
        told = json.loads(viewer.event()["data"])
        last = viewer.last
    serving.publish_and_wait(b"new")
    with serving.viewer(Last_Event_ID=last) as viewer:
        event = viewer.event()
        assert "event" not in event
        assert event["id"].endswith(f"-{told['next']}")
    serving.stop()


def test_a_slow_viewer_holds_nobody_and_is_disconnected_with_a_reason(tmp_path: Path) -> None:
    serving = Serving(tmp_path, replace(SINK, keep_bytes=100_000))
    with serving.viewer() as slow, serving.viewer() as fast:
        for number in range(200):  # far more than sockets hold
            serving.publish_and_wait(b"%d" % number + b" " * 50_000)
            assert fast.texts(1)[0].strip() == str(number)
        seen = []
        while (event := slow.event()).get("event") != "closed":
            seen.append(event["data"].strip())
        assert seen == [str(number) for number in range(len(seen))]
        assert (
            " outputs that come next are no longer among the last 100000 bytes (keep_b"
            in (event["data"])
        )
        assert slow.event() == {}
        assert serving.metrics()[catalogue.SSE_DISCONNECTED.name] == 1
    serving.stop()


def test_a_burst_that_is_larger_than_what_is_kept_says_so_and_what_to_do(tmp_path: Path) -> None:
    serving = Serving(tmp_path, replace(SINK, keep_bytes=1000))
    with serving.viewer() as viewer:
        serving.publish(*[b"%d" % number + b" " * 100 for number in range(50)])
        event = viewer.event()
        assert event == {
            "event": "closed",
            "data": "the 47 outputs that come next are no longer among the last 1000 bytes "
            "(keep_bytes), because newer ones came faster than the viewer took them; a larger "
            "keep_bytes bridges longer bursts",
        }
    serving.stop()


def test_a_viewer_that_takes_nothing_is_cut_off(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STALL_S", 0.2)
    with serving.viewer():
        for _ in range(100):  # within what is kept
            serving.publish(b" " * 50_000)
        wait_until(lambda: serving.metrics()[catalogue.SSE_DISCONNECTED.name] == 1, "the cut")
        wait_until(lambda: not serving.server._viewers._serving.connections, "the connection's end")


def test_a_viewer_that_has_nothing_to_read_gets_a_sign_of_life(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HEARTBEAT_S", 0.01)
    with contextlib.closing(serving.ask()) as answer:
        retry, known, *rest = [answer.readline() for _ in range(5)]
        assert (retry, known[:4], rest) == (b"retry: 2000\n", b"id: ", [b"\n", b":\n", b"\n"])


def test_a_viewer_that_had_no_event_yet_misses_nothing_when_it_reconnects(
    serving: Serving,
) -> None:
    with serving.viewer() as viewer:
        known = viewer.last
    serving.publish(b"meanwhile")
    with serving.viewer(**{"Last-Event-ID": known}) as viewer:
        assert viewer.texts(1) == ["meanwhile"]


def test_there_is_a_limit_of_viewers(tmp_path: Path) -> None:
    serving = Serving(tmp_path, replace(SINK, viewers=2))
    with serving.viewer(), serving.viewer():
        refused = serving.ask()
        assert refused.status == 503
        assert refused.read() == b"2 viewers are connected; try again later.\n"
    with serving.viewer():
        pass
    serving.stop()


def test_only_pages_of_allowed_origins_may_read(tmp_path: Path) -> None:
    allowed = "https://shop.example.org"
    serving = Serving(tmp_path, replace(SINK, origins=(allowed,)))
    refused = serving.ask(Origin="https://evil.example.org")
    assert refused.status == 403
    assert refused.read() == b"Pages of https://evil.example.org may not read these events.\n"
    assert "Access-Control-Allow-Origin" not in refused.headers
    assert serving.ask(Origin="").read() == b"Pages of an empty origin may not read these events.\n"
    with serving.viewer(Origin=allowed) as viewer:
        assert viewer.headers["Access-Control-Allow-Origin"] == allowed
    own = "http://{}:{}".format(*serving.address)
    with serving.viewer(Origin=own) as viewer:
        assert "Access-Control-Allow-Origin" not in viewer.headers
    asked = serving.ask(method="OPTIONS", Origin=allowed)
    assert asked.status == 204
    assert "last-event-id" in asked.headers["Access-Control-Allow-Headers"]
    serving.stop()


def test_no_page_reads_by_a_name_that_resolves_to_the_address(tmp_path: Path) -> None:
    shop = "shop.example.org:7020"
    sink = replace(SINK, origins=(f"https://{shop}",))
    serving = Serving(tmp_path, sink)
    for headers in ({}, {"Origin": "http://evil.example:7020"}):
        refused = serving.ask(Host="evil.example:7020", **headers)
        assert refused.status == 403
    assert serving.ask(Host="evil.example:7020").read() == (
        b"This sink is not called 'evil.example': add 'http://evil.example' to its origins, or let "
        b"it require a token (token_file).\n"
    )
    port = serving.address[1]
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", shop):
        with serving.viewer(Host=host):
            pass
    serving.stop()


def test_with_a_token_a_sink_may_be_called_anything(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    serving = Serving(tmp_path, replace(SINK, token_file=tmp_path / "token"))
    with serving.viewer(Host="events.example.org", Authorization=f"Bearer {TOKEN}"):
        pass
    serving.stop()


def test_wrong_tokens_are_logged_and_limited_and_the_right_one_passes(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    serving = Serving(tmp_path, replace(SINK, token_file=tmp_path / "token"))
    with capture_logs() as logs:
        answers = [serving.ask(f"/prices?token=wrong{n}") for n in range(Attempts.AT_ONCE + 1)]
    assert [answer.status for answer in answers] == [401] * Attempts.AT_ONCE + [429]
    assert (
        answers[-1].read().startswith(b"Too many wrong tokens came from 127.0.0.1: try again in ")
    )
    assert int(answers[-1].headers["Retry-After"]) <= Attempts.EVERY_S
    assert (logs[0]["event"], logs[0]["sink"], logs[0]["peer"]) == (
        "call refused",
        "prices",
        "127.0.0.1",
    )
    with serving.viewer(f"/prices?token={TOKEN}"):
        pass
    serving.stop()


def test_all_origins_may_be_allowed(tmp_path: Path) -> None:
    serving = Serving(tmp_path, replace(SINK, origins=("*",)))
    with serving.viewer(Origin="null") as viewer:
        assert viewer.headers["Access-Control-Allow-Origin"] == "null"
    serving.stop()


def test_a_token_is_required_where_there_is_one(tmp_path: Path) -> None:
    token = TOKEN
    (tmp_path / "token").write_text(f"{token}\n")
    serving = Serving(tmp_path, replace(SINK, token_file=tmp_path / "token"))
    for refused in (
        serving.ask(),
        serving.ask("/prices?token=wrong"),
        serving.ask("/prices?token=è"[:14] + "%C3%A8"),
        serving.ask(Authorization="Bearer wrong"),
        serving.ask(Authorization=f"Basic {token}"),
    ):
        assert refused.status == 401
        assert refused.headers["WWW-Authenticate"] == "Bearer"
    assert serving.ask("/prices?token=wrong").read() == b"The token is wrong.\n"
    assert serving.ask().read().startswith(b"A token is required: as Authorization: Bearer")
    with serving.viewer(f"/prices?token={token}"), serving.viewer(Authorization=f"Bearer {token}"):
        pass
    serving.stop()


def test_a_token_file_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="token cannot be read"):
        Serving(tmp_path, replace(SINK, token_file=tmp_path / "token"))


def test_other_paths_and_methods_are_refused_in_words(serving: Serving) -> None:
    wrong = serving.ask("/")
    assert wrong.status == 404
    assert wrong.read() == b"There is nothing at this path; the events are at /prices.\n"
    assert serving.ask(method="POST").status == 405


def test_events_are_sent_by_tls(tmp_path: Path) -> None:
    files = Authority(tmp_path, "one")
    tls = files.files(trusts=files)
    context = tls.connecting()
    assert context is not None
    TRUSTING[:] = [context]
    serving = Serving(tmp_path, tls=tls.serving())
    with serving.viewer() as viewer:
        serving.publish(b"secret")
        assert viewer.texts(1) == ["secret"]
    serving.stop()


def test_at_a_stop_viewers_get_what_there_is_and_the_end(serving: Serving) -> None:
    with contextlib.closing(serving.ask()) as answer:
        viewer = Viewer(answer)
        serving.publish_and_wait(b"a", b"b")
        serving.server.stop()
        assert viewer.texts(2) == ["a", "b"]
        assert viewer.event() == {}
    serving.close()
    serving.start()


def test_an_address_in_use_is_named(serving: Serving, tmp_path: Path) -> None:
    host, port = serving.address
    with pytest.raises(RuntimeFailure, match=f"sink 'prices' cannot listen on {host}:{port}: .*"):
        Serving(tmp_path / "other.db", replace(SINK, port=port))


def test_what_is_no_http_is_no_viewer(serving: Serving) -> None:
    with socket.create_connection(serving.address, PATIENCE_S) as connection:
        connection.sendall(b"\0" * 100)
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    with serving.viewer() as viewer:
        serving.publish(b"on")
        assert viewer.texts(1) == ["on"]
