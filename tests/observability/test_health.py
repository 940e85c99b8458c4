"""What probes get to hear."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from tests.helpers import PATIENCE_S, wait_until
from wallaroo.api.addresses import Address
from wallaroo.cli.main import main
from wallaroo.errors import RuntimeFailure
from wallaroo.observability.health import Health, HealthServer


def broken() -> Health:
    raise LookupError("nothing to look at")  # noqa: EM101


@pytest.fixture
def server() -> Iterator[HealthServer]:
    probes = {
        "/healthz": lambda: Health(True, "well"),
        "/readyz": lambda: Health(False, "7 messages wait"),
        "/broken": broken,
    }
    with HealthServer(Address("127.0.0.1", "0"), probes, lambda: {"backlog": 7}) as running:
        yield running


def get(server: HealthServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_each_probe_answers_with_a_code_and_a_sentence(server: HealthServer) -> None:
    assert get(server, "/healthz?verbose") == (200, "well\n")
    assert get(server, "/readyz") == (503, "7 messages wait\n")
    assert get(server, "/broken") == (503, "LookupError: nothing to look at\n")
    assert get(server, "/")[0] == 404


def test_the_status_is_json(server: HealthServer) -> None:
    status, body = get(server, "/status")
    assert (status, json.loads(body)) == (200, {"backlog": 7})


def test_the_images_health_check_asks_the_process_beside_it(server: HealthServer) -> None:
    done = CliRunner().invoke(main, ["probe", "--port", str(server.port)])
    assert (done.exit_code, done.output) == (0, "")
    server.close()
    done = CliRunner().invoke(main, ["probe", "--port", str(server.port)])
    assert done.exit_code == 1
    assert f"no response on port {server.port}" in done.output


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(RuntimeFailure, match=f"listen on 127.0.0.1:{port}: Address already"):
            HealthServer(Address("127.0.0.1", port), {}, dict)


@pytest.mark.parametrize("sent", [b"GET /healthz HTTP/1.1\r\n", b"\xff" * 70_000, b""])
def test_a_client_that_resets_its_connection_is_not_worth_a_trace(
    server: HealthServer, sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    before = set(threading.enumerate())
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(sent)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert get(server, "/healthz") == (200, "well\n")
    wait_until(lambda: set(threading.enumerate()) <= before)
    assert capfd.readouterr().err == ""


def test_a_flood_from_one_address_ends_its_own_connections(server: HealthServer) -> None:
    address = ("127.0.0.1", server.port)
    with contextlib.ExitStack() as opened:
        probe = opened.enter_context(
            socket.create_connection(address, PATIENCE_S, source_address=("127.0.0.2", 0))
        )
        flood = [
            opened.enter_context(socket.create_connection(address, PATIENCE_S)) for _ in range(80)
        ]
        wait_until(lambda: select.select(flood, [], [], 0)[0] == flood[:17], "an end of the oldest")
        probe.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert probe.recv(12) == b"HTTP/1.1 200"
