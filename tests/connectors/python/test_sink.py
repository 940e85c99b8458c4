"""Sinks that Python code writes: numbered outputs, in order, until they are safe."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.connectors.publishing import PublishingOutbox
from tests.gateway.harness import NOWHERE
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.api.connectors import OutputSink
from wallaroo.connectors import threads
from wallaroo.connectors.python.resolve import CustomSink
from wallaroo.connectors.python.sink import PythonSinkWriter


class Memory(OutputSink):
    """Remembers its calls; raises what it is told to, each once."""

    def __init__(self, *troubles: BaseException) -> None:
        self.calls: list[tuple[str, object]] = []
        self.troubles = list(troubles)

    def open(self, numbering: str) -> None:
        self.calls.append(("open", numbering))

    def write(self, first: int, outputs: Sequence[bytes]) -> None:
        self.calls.append(("write", (first, *outputs)))
        if self.troubles:
            raise self.troubles.pop(0)

    def close(self) -> None:
        self.calls.append(("close", None))

    @property
    def writes(self) -> list[object]:
        return [what for call, what in self.calls if call == "write"]

    @property
    def names(self) -> list[str]:
        return [call for call, _ in self.calls]


class Held(Memory):
    """Does not return from writing before a test lets it go on."""

    def __init__(self) -> None:
        super().__init__()
        self.writing, self.go_on = threading.Event(), threading.Event()

    def write(self, first: int, outputs: Sequence[bytes]) -> None:
        super().write(first, outputs)
        self.writing.set()
        self.go_on.wait(PATIENCE_S)


class Sending(PublishingOutbox):
    """An outbox and the writer that empties it; may be stopped and started."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.open()
        self.writers: list[PythonSinkWriter] = []

    def start(self, memory: OutputSink) -> PythonSinkWriter:
        sink = CustomSink("results", bytes, NOWHERE, memory)
        self.writers.append(PythonSinkWriter(self.context, 0, sink))
        return self.writers[-1]

    def restart(self) -> None:
        self.stop()
        self.open()

    def stop(self) -> None:
        for writer in self.writers:
            writer.stop()
        self.writers.clear()
        self.close()


@pytest.fixture
def sending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sending]:
    monkeypatch.setattr(threads, "IDLE_WAIT_S", 0.01)
    monkeypatch.setattr(threads, "RETRY_FIRST_S", 0.001)
    made = Sending(tmp_path)
    yield made
    made.stop()


def test_outputs_come_numbered_and_in_order(sending: Sending) -> None:
    memory = Memory()
    sending.start(memory)
    sending.publish(b"a", b"", b"c")
    sending.publish(b"d")
    sending.wait_until_delivered()
    assert memory.writes == [(0, b"a", b"", b"c"), (3, b"d")]


def test_numbers_go_on_after_a_restart_under_the_same_name(sending: Sending) -> None:
    one, other = Memory(), Memory()
    sending.start(one)
    sending.publish(b"a", b"b")
    sending.wait_until_delivered()
    sending.restart()
    sending.publish(b"of another sink", to=1)
    sending.publish(b"c")
    sending.start(other)
    wait_until(lambda: other.writes)
    assert other.writes == [(2, b"c")]
    assert one.calls[0] == other.calls[0]
    wait_until(lambda: sending.outbox.undelivered == 1)


def test_a_new_outbox_numbers_under_another_name(sending: Sending, tmp_path: Path) -> None:
    another = Sending(tmp_path / "another")
    one, other = Memory(), Memory()
    sending.start(one)
    another.start(other)
    wait_until(lambda: one.calls and other.calls)
    another.stop()
    assert one.calls[0] != other.calls[0]


def test_what_a_sink_raises_is_told_and_it_gets_the_same_again(sending: Sending) -> None:
    memory = Memory(OSError("disk full"), SystemExit(2))
    with capture_logs() as logs:
        sending.start(memory)
        sending.publish(b"a", b"b")
        sending.publish(b"c")
        sending.wait_until_delivered()
    assert memory.writes == [(0, b"a", b"b")] * 3 + [(2, b"c")]
    assert memory.names[:6] == ["open", "write", "close", "open", "write", "close"]
    failed = [entry for entry in logs if entry["event"] == "sink failed"]
    assert [entry["reason"].partition(" (test_sink.py:")[0] for entry in failed] == [
        "OSError: disk full",
        "SystemExit: 2",
    ]
    assert all(entry["writes"] == "Memory" for entry in failed)


class Unclosable(Memory):
    """One whose `close` raises, too."""

    def close(self) -> None:
        super().close()
        if len(self.writes) == 1:
            msg = "cannot be closed"
            raise ValueError(msg)


def test_what_close_raises_does_not_hide_what_write_raised(sending: Sending) -> None:
    with capture_logs() as logs:
        sending.start(Unclosable(OSError("the disk says no")))
        sending.publish(b"a")
        sending.wait_until_delivered()
    reasons = {entry["event"]: entry["reason"] for entry in logs if "reason" in entry}
    assert reasons["sink failed"].startswith("OSError: the disk says no (")
    assert reasons["sink not closed"].startswith("ValueError: cannot be closed (")


def test_a_sink_that_cannot_be_opened_is_tried_again(sending: Sending) -> None:
    class Later(Memory):
        def open(self, numbering: str) -> None:
            super().open(numbering)
            if len(self.calls) < 4:
                msg = "not yet"
                raise ConnectionError(msg)

    memory = Later()
    sending.start(memory)
    sending.publish(b"a")
    sending.wait_until_delivered()
    assert memory.names == ["open", "open", "open", "open", "write"]


def test_a_stop_finishes_the_write_that_is_under_way_and_closes(sending: Sending) -> None:
    memory = Held()
    writer = sending.start(memory)
    sending.publish(b"a")
    sending.publish(b"b")
    assert memory.writing.wait(PATIENCE_S)
    stopping = threading.Thread(target=writer.stop)
    stopping.start()
    wait_until(writer._stopping.is_set, "the stop")
    memory.go_on.set()
    stopping.join(PATIENCE_S)
    assert memory.names == ["open", "write", "close"]
    assert sending.outbox.delivered_to(0) == 1


def test_what_a_sink_that_does_not_stop_writes_counts_as_not_delivered(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "STOP_S", 0.01)
    stuck = Held()
    sending.start(stuck)
    sending.publish(b"a")
    assert stuck.writing.wait(PATIENCE_S)
    with capture_logs() as logs:
        sending.restart()
    assert [(entry["event"], entry["reason"]) for entry in logs] == [
        ("sink does not stop", "a call of its open(), write() or close() has not returned")
    ]
    stuck.go_on.set()
    memory = Memory()
    sending.start(memory)
    sending.wait_until_delivered()
    assert memory.writes == [(0, b"a")]
