"""An application that is edited while it runs: the next outputs are of the new code, none is lost.

All in one run, because starting one takes longest.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers import free_address, wait_until
from tests.run.reload.application import change, write
from tests.spark.harness import PATIENCE_S, Receiver, frame, processes, run, send
from wallaroo.run.background_run import BackgroundRun, Event

pytestmark = pytest.mark.spark


@contextmanager
def stream(address: str) -> Iterator[list[int]]:
    """Send one key on one connection until the end of the block; yields the number of messages."""
    host, port = address.rsplit(":", 1)
    sent, ends = [0], threading.Event()

    def send() -> None:
        with socket.create_connection((host, int(port))) as connection:
            while not ends.wait(0.01):
                connection.sendall(frame(b"a"))
                sent[0] += 1
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent
    finally:
        ends.set()
        thread.join()


def words(receiver: Receiver) -> list[str]:
    """The words of the outputs, each once, in order."""
    return list(dict.fromkeys(line.decode().split()[0] for line in receiver.messages))


def told(running: BackgroundRun, name: str) -> list[Event]:
    """The events called *name*."""
    return [event for event in running.events if event["event"] == name]


def refusals(running: BackgroundRun) -> list[str]:
    return [event["reason"] for event in told(running, "not reloaded")]


def test_an_edit_takes_effect_with_the_state_kept(tmp_path: Path) -> None:
    application = tmp_path / "edited"
    application.mkdir()
    write(application)
    options = ["--reload", "--workers", "1"]
    with (
        Receiver("lines") as receiver,
        run(application, receiver, tmp_path / "state", options=options) as running,
    ):
        with stream(running.sources["Keys"]) as sent:
            receiver.wait_for(10)
            change(application, "one", "two", "texts.py")
            wait_until(lambda: "two" in words(receiver), "the edit", PATIENCE_S)
            # what does not work is told, and the code from before goes on
            change(application, "import wallaroo", "import wallaroo, syntax error")
            wait_until(lambda: len(refusals(running)) == 1, "the refusal", PATIENCE_S)
            change(application, "import wallaroo, syntax error", "import wallaroo, texts2")
            wait_until(lambda: len(refusals(running)) == 2, "the next refusal", PATIENCE_S)
            receiver.wait_for(len(receiver.messages) + 10)
            (application / "texts2.py").write_text("WORD = 'three'\n")  # what was lacking
            running.wait_for_event("reloaded", PATIENCE_S)
            change(application, "from texts import", "from texts2 import")
            wait_until(lambda: "three" in words(receiver), "the other file", PATIENCE_S)
            change(application, "messages = 0", "messages, self.seen = 0, 0")
            wait_until(lambda: len(refusals(running)) == 3, "the refusal", PATIENCE_S)
            assert "has the field 'seen', which the saved entities lack" in refusals(running)[-1]
            # a process that is killed comes back with the code that was checked
            os.kill(max(processes(running, "realtime.agent")), signal.SIGKILL)
            running.wait_for_event("query restarts", PATIENCE_S)
            receiver.wait_for(len(receiver.messages) + 50)
        # a changed source is served after the reload
        host, port = running.sources["Keys"].rsplit(":", 1)
        reloads = len(told(running, "reloaded"))
        code = (application / "application.py").read_text()
        code = code.replace("messages, self.seen = 0, 0", "messages = 0")
        code = code.replace("decode)", 'decode, framing="lines")')
        (application / "application.py").write_text(code)
        wait_until(lambda: len(told(running, "reloaded")) > reloads, "the source", PATIENCE_S)
        with socket.create_connection((host, int(port))) as connection:  # at the same port
            connection.sendall(b"b\n")
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
        wait_until(lambda: b"three b 1\n" in receiver.messages, "lines", PATIENCE_S)
        assert running.stop() == 0
    counts = [int(line.split()[-1]) for line in receiver.messages if b" a " in line]
    assert counts == list(range(1, sent[0] + 1))
    assert words(receiver) == ["one", "two", "three"]


def test_code_with_which_the_gateway_does_not_start_is_refused(tmp_path: Path) -> None:
    application = tmp_path / "edited"
    application.mkdir()
    write(application)
    address, sink, source = free_address(), "to_port, encode)", "host, port, decode"
    renamed, keys = f'{sink}.named("other")', [b"a"]
    with run(application, address, tmp_path / "state", options=["--reload"]) as running:
        gateway = running.client
        assert gateway is not None
        with stream(running.sources["Keys"]) as sent:
            wait_until(lambda: gateway.status().undelivered, "outputs", PATIENCE_S)
            change(application, sink, renamed)
            wait_until(lambda: len(refusals(running)) == 1, "the refusal", PATIENCE_S)
            assert (
                "for the sink 'Keys' to be delivered, and the application" in refusals(running)[0]
            )
            receiver = Receiver("lines", int(address.rpartition(":")[2]))
            receiver.wait_for(sent[0] + 10)  # the sender's connection is still the first
        with receiver:
            change(application, renamed, sink)
            running.wait_for_event("reloaded", PATIENCE_S)
            with socket.create_server(("127.0.0.1", 0)) as other:
                in_use = f"host, {other.getsockname()[1]}, decode"
                change(application, source, in_use)
                wait_until(lambda: len(refusals(running)) == 2, "the next refusal", PATIENCE_S)
                assert "does not start with the changed application" in refusals(running)[1]
                send(running.sources["Keys"], keys)
                receiver.wait_for(sent[0] + 1)
            change(application, '"one"', '"two"', "texts.py")
            change(application, in_use, source)
            wait_until(lambda: len(told(running, "reloaded")) == 2, "the reload", PATIENCE_S)
            send(running.sources["Keys"], keys)
            receiver.wait_for(sent[0] + 2)
            assert running.stop() == 0
    counts = [int(line.split()[-1]) for line in receiver.messages]
    assert counts == list(range(1, sent[0] + 3))
    assert words(receiver) == ["one", "two"]
