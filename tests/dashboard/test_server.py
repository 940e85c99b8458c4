"""Every path of the dashboard over HTTP: contents, headers, methods, and who may connect."""

from __future__ import annotations

import base64
import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request
from structlog.testing import capture_logs

import wallaroo.dashboard
from tests.dashboard.feed import AWAY, PIPELINE, START, Dashboard, Feed, serving
from tests.dashboard.viewer import Viewer
from tests.helpers import wait_until
from wallaroo.api.addresses import Address
from wallaroo.dashboard import server as server_module
from wallaroo.dashboard.access import AccessRefused, TokenGate
from wallaroo.dashboard.server import DashboardServer
from wallaroo.system.token_attempts import Attempts

STATIC = Path(wallaroo.dashboard.__file__).parent / "static"
READ = ("/", "/application", "/events", "/snapshot", "/metrics", "/state", "/dead-letters")
TOKEN = "the token of the page"
CHANGE = ("/dead-letters/replay", "/dead-letters/drop")


@pytest.fixture
def dashboard(feed: Feed) -> Iterator[Dashboard]:
    with serving(feed) as dashboard:
        yield dashboard


@pytest.fixture
def viewer(dashboard: Dashboard) -> Viewer:
    return dashboard.viewer


@pytest.fixture(scope="module")
def idle() -> Iterator[Viewer]:
    """A viewer of a dashboard whose feed does not change."""
    with serving(Feed()) as dashboard:
        yield dashboard.viewer


def files() -> list[str]:
    return sorted(file.name for file in STATIC.iterdir())


def test_every_element_that_a_script_names_is_in_the_page() -> None:
    page = (STATIC / "index.html").read_text()
    for name in files():
        if name.endswith(".js") and ".min." not in name:
            for one in re.findall(r"""\$\("([\w-]+)"\)""", (STATIC / name).read_text()):
                assert f'id="{one}"' in page, (name, one)


def test_the_page_runs_no_scripts_from_elsewhere_and_is_of_its_declared_type(
    idle: Viewer,
) -> None:
    page = idle.ask("/")
    assert page.status == 200
    assert page.body == (STATIC / "index.html").read_bytes()
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert policy == (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
    )
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"


def test_no_other_site_is_allowed_to_read(idle: Viewer) -> None:
    for path in ("/", "/application", "/snapshot", "/metrics", "/dead-letters", "/static/dom.js"):
        answer = idle.ask(path, headers={"Origin": "https://evil.example"})
        assert answer.status == 200
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("name", files())
def test_every_file_of_the_page_is_served_with_its_type(idle: Viewer, name: str) -> None:
    types = {".css": "text/css", ".html": "text/html", ".js": "javascript", ".svg": "image/svg+xml"}
    answer = idle.ask(f"/static/{name}")
    assert answer.status == 200
    assert answer.body == (STATIC / name).read_bytes()
    assert types.get(Path(name).suffix, "") in answer.headers["content-type"]
    unchanged = idle.ask(f"/static/{name}", headers={"If-None-Match": answer.headers["etag"]})
    assert (unchanged.status, unchanged.body) == (304, b"")


def test_the_page_refers_to_files_and_elements_that_exist() -> None:
    page = (STATIC / "index.html").read_text()
    scripts = {name: (STATIC / name).read_text() for name in files() if name.endswith(".js")}
    referred = re.findall(r'(?:src|href)="static/([^"]+)"', page)
    imported = [name for text in scripts.values() for name in re.findall(r'from "\./(.+)"', text)]
    assert {*referred, *imported} <= {*files()}
    ids = set(re.findall(r' id="([^"]+)"', page))
    used = {name for text in scripts.values() for name in re.findall(r'\$\("([\w-]+)"\)', text)}
    tables = set(re.findall(r'body\("(\w+)"', scripts["dashboard.js"]))
    assert used
    assert used | tables <= ids


@pytest.mark.parametrize(
    "path",
    [
        *("/nothing", "/static/nothing.js", "/static/../server.py", "/static/%2e%2e/server.py"),
        *("/dead-letters/first", "/dead-letters/-1", "/dead-letters/1/frame"),
    ],
)
def test_a_path_that_does_not_exist_is_not_found(idle: Viewer, path: str) -> None:
    assert idle.ask(path).status == 404


@pytest.mark.parametrize("path", READ)
def test_what_is_read_cannot_be_posted_to(idle: Viewer, path: str) -> None:
    for method in ("POST", "PUT", "DELETE"):
        refused = idle.ask(path, method)
        assert refused.status == 405
        assert sorted(refused.headers["allow"].split(", ")) == ["GET", "HEAD"]


@pytest.mark.parametrize("path", CHANGE)
def test_nothing_is_changed_by_reading(idle: Viewer, path: str) -> None:
    for method in ("GET", "HEAD", "PUT", "DELETE"):
        refused = idle.ask(path, method)
        assert (refused.status, refused.headers["allow"]) == (405, "POST")


def test_head_has_the_headers_alone(idle: Viewer) -> None:
    page, head = idle.ask("/"), idle.ask("/", "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == page.headers["content-length"] != "0"


def test_the_application_is_described_with_its_graph(idle: Viewer) -> None:
    described = idle.ask("/application").json
    assert described["name"] == "Word Count Application"
    assert described["pipelines"] == [PIPELINE]
    assert described["changeable"] is False
    (group,) = described["groups"]
    assert group["pipelines"] == [PIPELINE]
    kinds = [(node["kind"], node["name"]) for node in group["nodes"]]
    assert kinds == [
        ("source", PIPELINE),
        ("step", "split into words"),
        ("stateful step", "Count Word"),
        ("sink", PIPELINE),
    ]
    (state,) = described["states"]
    assert (state["kind"], state["name"]) == ("state", "word totals")
    nodes = {node["id"]: node for node in [*group["nodes"], state]}
    assert all(re.fullmatch(r"application\.py:\d+", node["place"]) for node in nodes.values())
    ways = [(nodes[edge["start"]]["name"], edge["kind"]) for edge in described["edges"]]
    assert ways.count(("Count Word", "messages")) == ways.count(("Count Word", "state")) == 1
    named = described["functions"].values()
    assert {name.removeprefix(f"{PIPELINE} · ") for name in named} == {
        *("decoder", "split into words", "Count Word", "key of Count Word", "encoder"),
    }


def test_the_metrics_are_those_of_the_run_in_the_format_of_prometheus(
    feed: Feed, viewer: Viewer
) -> None:
    feed.set(10, fast=3)
    viewer.snapshot(START + 10)
    answer = viewer.ask("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert samples["wallaroo_step_messages_total", PIPELINE, "decoder"] == 3
    assert samples["wallaroo_latency_seconds_count", PIPELINE] == 3
    assert samples["wallaroo_workers_alive",] == 1


def test_while_the_gateway_is_away_requests_fail_with_the_reason_and_the_last_result_stays(
    feed: Feed, viewer: Viewer
) -> None:
    last = viewer.snapshot(START)
    feed.set(10, away=True)
    for path in ("/metrics", "/state?key=z", "/dead-letters", "/dead-letters/1"):
        answer = viewer.ask(path)
        assert (answer.status, answer.text) == (503, AWAY)
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    wait_until(lambda: viewer.ask("/snapshot").json["away"] == AWAY, "the reason in the result")
    assert viewer.ask("/snapshot").json == last | {"time": START + 10, "away": AWAY}
    assert viewer.ask("/").status == viewer.ask("/application").status == 200
    feed.set(10, away=False, fast=1)
    later = viewer.snapshot(START + 20)
    assert later["point"]["pipelines"][PIPELINE]["messages"] == 1
    assert later["away"] is None
    assert viewer.ask("/dead-letters").json == []


def test_before_the_gateway_has_answered_there_is_no_snapshot_and_streams_stay_open() -> None:
    feed = Feed()
    feed.set(away=True)
    with serving(feed) as dashboard, dashboard.viewer.events() as events:
        missing = dashboard.viewer.ask("/snapshot")
        assert (missing.status, missing.json) == (503, None)
        assert next(events) == ("history", [])
        assert next(events) == ("", "nothing new")
        feed.set(10, away=False)
        dashboard.viewer.snapshot(START + 10)
        assert next(event for event in events if event.name).data["time"] == START + 10


def test_the_stream_has_the_history_then_every_result(feed: Feed, viewer: Viewer) -> None:
    first = viewer.snapshot(START)
    with viewer.events() as events:
        name, history = next(events)
        assert name == "history"
        assert history[0] == first["point"]
        assert next(events) == ("snapshot", first)
        for number in (1, 2, 3):
            feed.set(10, fast=number)
            viewer.ask("/snapshot")
            name, result = next(events)
            assert (name, result["time"]) == ("snapshot", START + 10 * number)
            assert result["point"]["pipelines"][PIPELINE]["messages"] == number
    with viewer.events() as events:
        times = [point["time"] for point in next(events).data]
        assert sorted(set(times)) == [START, START + 10, START + 20, START + 30]


def test_the_stream_is_neither_stored_nor_buffered_on_its_way(idle: Viewer) -> None:
    head = idle.ask("/events", "HEAD")
    assert head.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert head.headers["cache-control"] == "no-store"
    assert head.headers["x-accel-buffering"] == "no"


def test_several_viewers_see_the_same_and_may_leave_at_any_time(feed: Feed, viewer: Viewer) -> None:
    first = viewer.snapshot(START)
    with viewer.events() as one, viewer.events() as other:
        for events in (one, other):
            assert next(events).name == "history"
            assert next(events) == ("snapshot", first)
        with viewer.events() as leaving:
            assert next(leaving).name == "history"
        feed.set(10, fast=5)
        seen = viewer.snapshot(START + 10)
        assert next(one) == next(other) == ("snapshot", seen)
    feed.set(10, fast=6)
    viewer.snapshot(START + 20)
    with viewer.events() as later:
        assert [point["time"] for point in next(later).data][-1] == START + 20


def test_when_polling_stops_streams_end_and_the_last_result_stays(
    dashboard: Dashboard, viewer: Viewer
) -> None:
    last = viewer.snapshot(START)
    with viewer.events() as events:
        assert [next(events).name, next(events).name] == ["history", "snapshot"]
        dashboard.watch.stop()
        assert dashboard.watch.stopping
        assert {event.name for event in events} <= {""}
    assert viewer.ask("/snapshot").json == last


def test_a_server_that_is_closed_refuses_connections(feed: Feed) -> None:
    with serving(feed) as dashboard:
        dashboard.viewer.snapshot(START)
        dashboard.watch.stop()
        dashboard.server.close()
        with pytest.raises(ConnectionRefusedError):
            dashboard.viewer.ask("/")


@pytest.mark.parametrize("path", [*READ, *CHANGE, "/static/dom.js", "/nothing"])
def test_on_the_loopback_address_a_name_that_resolves_here_is_refused(
    idle: Viewer, path: str
) -> None:
    method = "POST" if path in CHANGE else "GET"
    refused = idle.ask(path, method, headers={"Host": "evil.example"})
    assert refused.status == 400
    assert refused.text == "the dashboard is not called 'evil.example'; --ui-name adds a name"


@pytest.mark.parametrize("host", ["127.0.0.1:80", "localhost", "localhost:7990", "[::1]:7990"])
def test_the_names_of_the_loopback_address_are_accepted(idle: Viewer, host: str) -> None:
    assert idle.ask("/application", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 200) for host in ("10.0.0.1:80", "localhost:4040", "[fe80::1]:4040", "service")),
        *((host, 200) for host in ("service.space:4040", "SERVICE.space")),
        *((host, 400) for host in ("evil.example", "service.space.evil.example", "")),
    ],
)
def test_on_any_other_address_a_domain_has_to_be_named(feed: Feed, host: str, status: int) -> None:
    with serving(feed, host="0.0.0.0", names=["service.space"]) as dashboard:
        answer = dashboard.viewer.ask("/application", headers={"Host": host})
        assert answer.status == status


def test_more_viewers_than_threads_wait_and_nothing_else_does() -> None:
    """Before there is a snapshot, each of them waits for it as long as a stream waits."""
    feed = Feed()
    feed.set(away=True)
    with serving(feed) as dashboard, contextlib.ExitStack() as open_ones:
        streams = [open_ones.enter_context(dashboard.viewer.events()) for _ in range(60)]
        for events in streams:
            assert next(events).name == "history"
        assert dashboard.viewer.ask("/dead-letters").text == AWAY
        assert threads_of_requests() < 10
        feed.set(10, away=False)
        for events in streams:
            assert next(event for event in events if event.name).data["time"] == START + 10


def threads_of_requests() -> int:
    return sum("AnyIO worker" in thread.name for thread in threading.enumerate())


def test_beyond_the_limit_of_streams_snapshots_are_left(
    feed: Feed, viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_MOST_STREAMS", 1)
    viewer.snapshot(START)
    with viewer.events() as events:
        next(events)
        refused = viewer.ask("/events")
        assert (refused.status, refused.text) == (503, "1 pages are open: poll /snapshot")
        assert viewer.ask("/snapshot").status == 200


def basic(password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"me:{password}".encode()).decode()}


@pytest.mark.parametrize("path", [*READ, "/static/dom.js", "/nothing"])
def test_on_any_other_address_the_token_is_required_to_read(feed: Feed, path: str) -> None:
    with serving(feed, TOKEN, host="0.0.0.0") as dashboard:
        asked = dashboard.viewer.ask(path)
        assert asked.status == 401
        assert asked.headers["www-authenticate"].startswith("Basic ")
        assert dashboard.viewer.ask(path, headers=basic("guessed")).status == 401
        assert dashboard.viewer.ask(path, headers={"Authorization": "Basic %"}).status == 401
        assert dashboard.viewer.ask(path, "HEAD", headers=basic(TOKEN)).status in {200, 404}
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert dashboard.viewer.ask(path, "HEAD", headers=bearer).status in {200, 404}


def test_the_password_that_a_browser_sends_by_itself_changes_nothing(feed: Feed) -> None:
    with serving(feed, TOKEN, host="0.0.0.0") as dashboard:
        assert dashboard.viewer.ask(CHANGE[0], "POST", "[1]", basic(TOKEN)).status == 401


def test_wrong_tokens_are_counted_and_logged_and_the_right_one_always_passes() -> None:
    now = 100.0
    gate = TokenGate(TOKEN, Attempts(lambda: now))

    def status(token: str, peer: str = "10.0.0.1") -> int:
        headers = [(b"authorization", f"Bearer {token}".encode())]
        scope = {"type": "http", "path": "/", "headers": headers, "client": (peer, 1)}
        try:
            gate.check(Request(scope))
        except AccessRefused as refused:
            return refused.response.status_code
        return 200

    with capture_logs() as logs:
        statuses = [status(f"guess {number}") for number in range(100)]
    assert statuses == [401] * Attempts.AT_ONCE + [429] * (100 - Attempts.AT_ONCE)
    assert [entry["peer"] for entry in logs] == ["10.0.0.1"] * 4  # 1st, 2nd, 3rd, 10th
    assert {(entry["event"], entry["log_level"]) for entry in logs} == {("wrong token", "warning")}
    assert status(TOKEN) == 200  # others may share the address, as behind a proxy
    now += Attempts.EVERY_S
    assert [status("guess"), status("guess")] == [401, 429]


def test_who_guesses_cannot_claim_another_address_for_each_guess(feed: Feed) -> None:
    with serving(feed, TOKEN, host="0.0.0.0") as dashboard:
        answers = [
            dashboard.viewer.ask(
                "/",
                headers={
                    "Authorization": f"Bearer guess {number}",
                    "X-Forwarded-For": f"10.0.0.{number}",
                },
            )
            for number in range(3 * Attempts.AT_ONCE)
        ]
        assert {answer.status for answer in answers} == {401, 429}
        assert "wrong tokens came from 127.0.0.1" in answers[-1].text


def test_it_is_served_over_ipv6(feed: Feed) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with serving(feed, host="::1") as dashboard:
        assert dashboard.server.url.startswith("http://[::1]:")
        assert dashboard.viewer.ask("/application").status == 200


def test_an_address_that_is_in_use_is_an_error(dashboard: Dashboard) -> None:
    port = dashboard.server.url.rstrip("/").rpartition(":")[2]
    with pytest.raises(OSError, match="in use"):
        DashboardServer(Address("127.0.0.1", port), dashboard.watch, None)


def test_a_head_that_is_never_complete_ends_its_connection(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "HEAD_S", 0.1)
    with (
        serving(feed) as dashboard,
        contextlib.closing(dashboard.viewer.connect()) as connection,
    ):
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
        assert connection.recv(1) == b""
