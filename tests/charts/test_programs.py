"""The programs that the charts bring: a receiver to try out with, and what `helm test` runs."""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socket import create_connection, create_server
from typing import IO, Any

import pytest
import trustme

from tests.charts.harness import HELM

FILES = HELM / "wallaroo/files"


class Receiver:
    """The receiver as a process of its own."""

    def __init__(self, shown_as: str) -> None:
        settings = {"ports": [0], "http": 0, "format": shown_as}
        self.process = subprocess.Popen(
            [sys.executable, str(FILES / "receiver.py"), json.dumps(settings)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port, self.http = self._told("listening"), self._told("answering")

    def send(self, data: bytes) -> None:
        with create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(data)
            connection.shutdown(1)
            assert connection.recv(1) == b""  # it has taken everything

    def contains(self, wanted: bytes) -> str:
        return self.ask(f"contains?hex={wanted.hex()}")

    def ask(self, what: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/{what}") as response:
            return str(response.read().decode())

    def line(self) -> str:
        return self._output.readline().rstrip("\n")

    def stop(self) -> int:
        self.process.terminate()
        self.process.communicate()
        return self.process.returncode

    @property
    def _output(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def _told(self, verb: str) -> int:
        found = re.fullmatch(rf"{verb} on port (\d+)", self.line())
        assert found is not None
        return int(found[1])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver("text")
    yield made
    assert made.stop() == 0


class Application(BaseHTTPRequestHandler):
    """A gateway with an application behind it, as far as `helm test` sees them.

    Counts each message it gets as a word, and sends `word => 1` to a receiver.
    """

    receiver: Receiver
    set_aside = 0
    accepted = backlog = 0
    topics = 0
    """Messages that a source of a topic has accepted."""
    topic_problem: str | None = None
    tls: ssl.SSLContext | None = None

    def do_GET(self) -> None:
        topic = f"topic orders at broker:{self.port}"
        status = {
            "sources": [
                {
                    "name": "Orders",
                    "where": topic,
                    "accepted": type(self).topics,
                    "problem": type(self).topic_problem,
                },
                {
                    "name": "Split",
                    "where": f"0.0.0.0:{self.port}",
                    "accepted": type(self).accepted,
                    "problem": None,
                },
            ],
            "sinks": [{"name": "Totals", "where": topic, "problem": None}],
            "backlog": type(self).backlog,
            "set_aside": type(self).set_aside,
            "unknown_key": 0,
        }
        body = json.dumps(status).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    port = 0

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def application(receiver: Receiver) -> Iterator[type[Application]]:
    class Here(Application):
        pass

    Here.receiver = receiver
    listener = create_server(("127.0.0.1", 0))
    Here.port = listener.getsockname()[1]
    http = HTTPServer(("127.0.0.1", 0), Here)
    Here.status = f"http://127.0.0.1:{http.server_port}/status"  # type: ignore[attr-defined]

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            if Here.tls is not None:
                try:
                    connection = Here.tls.wrap_socket(connection, server_side=True)
                except OSError:  # it is not trusted, or does not trust
                    connection.close()
                    continue
            with connection, connection.makefile("rb") as stream:
                word = stream.read(int.from_bytes(stream.read(4)))
                Here.accepted += 1
                if word == b"bad":
                    Here.set_aside += 1
                else:
                    receiver.send(word + b" => 1\n")
                if isinstance(connection, ssl.SSLSocket):
                    with contextlib.suppress(OSError):
                        connection.unwrap()

    threads = [threading.Thread(target=http.serve_forever), threading.Thread(target=serve)]
    for thread in threads:
        thread.start()
    yield Here
    http.shutdown()
    http.server_close()
    listener.shutdown(2)
    listener.close()
    for thread in threads:
        thread.join()


def smoke(application: type[Application], tmp_path: Path, **settings: Any) -> tuple[int, str]:
    """Exit code and output of the test, run on *application*."""
    path = tmp_path / "settings.json"
    given = {
        "sources": {"text": f"127.0.0.1:{application.port}"},
        "status": application.status,  # type: ignore[attr-defined]
        "receiver": f"http://127.0.0.1:{application.receiver.http}",
        "topics": False,
        "tls": {"sources": None, "own": None},
        "messages": [{"source": "text", "text": "{nonce}"}],
        "expect": [{"text": "{nonce} => 1\n"}],
        "timeout_s": 30,
    }
    path.write_text(json.dumps(given | settings))
    command = [sys.executable, str(FILES / "smoke.py"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_the_receiver_shows_lines_and_knows_what_it_received(receiver: Receiver) -> None:
    receiver.send(b"ada => 1\ngrace => 1\nhalf a")
    assert [receiver.line(), receiver.line()] == ["ada => 1", "grace => 1"]
    assert receiver.contains(b"1\ngrace") == "yes"
    assert receiver.contains(b"alan") == "no"
    assert receiver.ask("healthz") == "2 outputs so far"


def test_the_receiver_shows_frames_as_hexadecimal() -> None:
    receiver = Receiver("hex")
    receiver.send(b"\0\0\0\2\x01\xff" + b"\0\0\0\0" + b"\0\0\0\3abc" + b"\0\0\0\7abc")
    assert [receiver.line(), receiver.line(), receiver.line()] == ["01ff", "", "616263"]
    assert receiver.stop() == 0


def test_a_flood_does_not_flood_the_log(receiver: Receiver) -> None:
    receiver.send(b"".join(b"%d\n" % number for number in range(5_000)))
    shown = [receiver.line()]
    while not shown[-1].endswith("more, 5,000 in all"):
        shown.append(receiver.line())
    assert shown[:20] == [str(number) for number in range(20)]
    assert len(shown) < 100
    assert receiver.contains(b"\n4999\n") == "yes"


def test_what_comes_back_passes(application: type[Application], tmp_path: Path) -> None:
    code, told = smoke(application, tmp_path)
    assert code == 0, told
    assert "received b'" in told
    assert told.endswith("OK\n")


def test_bytes_are_sent_and_expected_as_hexadecimal(
    application: type[Application], tmp_path: Path
) -> None:
    messages = [{"source": "text", "hex": "61 {nonce} 62"}]
    code, told = smoke(
        application, tmp_path, messages=messages, expect=[{"hex": "61{nonce}62 203d3e20310a"}]
    )
    assert code == 0, told


def test_sources_with_tls_must_show_the_certificate_they_are_known_by(
    application: type[Application], tmp_path: Path
) -> None:
    authority = trustme.CA()
    certificates = {}
    for name in ("sources", "own", "other"):
        directory = tmp_path / name
        directory.mkdir()
        issued = authority.issue_cert(f"{name}.example")
        issued.cert_chain_pems[0].write_to_path(directory / "tls.crt")
        issued.private_key_pem.write_to_path(directory / "tls.key")
        certificates[name] = issued
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates["sources"].configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    application.tls = context

    def tls(shown: str) -> dict[str, str]:
        return {"sources": str(tmp_path / shown), "own": str(tmp_path / "own")}

    code, said = smoke(application, tmp_path, tls=tls("sources"))
    assert (code, said.splitlines()[-1]) == (0, "OK"), said
    code, said = smoke(application, tmp_path, tls=tls("other"))
    assert (code, "does not speak TLS with the certificate" in said) == (1, True), said


def test_topics_that_can_be_used_pass_without_a_message(
    application: type[Application], tmp_path: Path
) -> None:
    application.topics = 7
    code, told = smoke(application, tmp_path, topics=True, messages=[], receiver=None)
    assert code == 0, told
    assert "no topic has a problem" in told


def test_a_topic_that_cannot_be_used_fails(application: type[Application], tmp_path: Path) -> None:
    application.topic_problem = "the brokers refuse the credentials"
    code, told = smoke(application, tmp_path, topics=True, messages=[], timeout_s=2)
    assert code == 1
    reason = "source Orders (topic orders at broker:"
    assert f"FAILED: {reason}{application.port}): the brokers refuse the credentials" in told


def test_outputs_that_go_elsewhere_are_not_looked_for(
    application: type[Application], tmp_path: Path
) -> None:
    code, told = smoke(application, tmp_path, receiver=None)
    assert code == 0, told
    assert "were not checked" in told


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"expect": [{"text": "{nonce} => 2\n"}], "timeout_s": 2}, "no sign of the output b'"),
        (
            {"messages": [{"source": "text", "text": "bad"}], "timeout_s": 30},
            "1 messages were counted as set_aside",
        ),
        ({"sources": {"text": "127.0.0.1:9"}}, "no sign of a connection to 127.0.0.1:9"),
        ({"status": "http://127.0.0.1:9/status"}, "no sign of the gateway's status within 2 s"),
    ],
    ids=["another output", "set aside", "no source", "no gateway"],
)
def test_what_does_not_come_back_fails(
    application: type[Application], tmp_path: Path, settings: dict[str, Any], why: str
) -> None:
    code, told = smoke(application, tmp_path, **{"timeout_s": 2, **settings})
    assert code == 1
    assert f"FAILED: {why}" in told


def test_a_message_that_stays_in_the_backlog_fails(
    application: type[Application], tmp_path: Path
) -> None:
    application.backlog = 1
    code, told = smoke(application, tmp_path, timeout_s=2)
    assert code == 1
    assert "FAILED: no sign of the chunk with the messages sent (1 accepted in all)" in told
