"""Sources that Python code reads: each message once, however reading goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.gateway.harness import NOWHERE, U32
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.api.connectors import MessageSource
from wallaroo.connectors import threads
from wallaroo.connectors.files.source import FileSource
from wallaroo.connectors.python import source as module
from wallaroo.connectors.python.resolve import CustomSource
from wallaroo.connectors.python.source import PythonSourceReader
from wallaroo.errors import FrameError
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.standstills import Standstills
from wallaroo.gateway.store import Store, StoreLimits
from wallaroo.gateway.turns import members_of, turns_among
from wallaroo.wire.framing import Framing
from wallaroo.wire.refusals import refusal, refusal_reason, unguarded


class Numbers(MessageSource[int]):
    """Numbers from 0 on, up to *end*, with troubles before some of them, each once."""

    def __init__(self, end: int, troubles: dict[int, Any] | None = None) -> None:
        self.end = end
        self.troubles = troubles or {}
        self.positions: list[int | None] = []
        """Where reading was begun."""
        self.closed = 0

    def read(self, position: int | None) -> Iterator[Any]:
        self.positions.append(position)
        try:
            for number in range(0 if position is None else position + 1, self.end):
                trouble = self.troubles.pop(number, None)
                if isinstance(trouble, BaseException):
                    raise trouble
                if callable(trouble):
                    yield trouble()
                yield b"%d" % number, number
        finally:
            self.closed += 1


class Feeding:
    """A journal and what fills it; may be stopped and started."""

    def __init__(self, directory: Path, limits: JournalLimits | None = None) -> None:
        self._directory = directory
        self._limits = StoreLimits(limits or JournalLimits())
        self.open()
        self.readers: list[PythonSourceReader] = []

    def open(self) -> None:
        self._directory.mkdir(exist_ok=True)
        self.store = Store(self._directory, limits=self._limits)
        self.journal = self.store.journal

    def start(self, reader: MessageSource[Any], framing: Framing = U32) -> PythonSourceReader:
        source = CustomSource("numbers", framing, bytes, NOWHERE, reader)
        context = ConnectorContext(self.journal, self.store.outbox)
        self.readers.append(PythonSourceReader(context, 0, source))
        self.readers[-1].start()
        return self.readers[-1]

    def restart(self) -> None:
        self.stop()
        self.open()

    def stop(self) -> None:
        for feeder in self.readers:
            feeder.stop()
        self.readers.clear()
        self.store.close()

    def wait_for(self, count: int) -> list[bytes]:
        """The messages, once *count* are accepted."""
        assert self.journal.wait_accepted(0, count, PATIENCE_S)
        return self.messages()

    def messages(self) -> list[bytes]:
        assert self.journal.flush(PATIENCE_S)
        blocks = self.journal.read(self.journal.consumed, self.journal.end)
        return [payload for block in blocks for payload in U32.split(block.data)]


@pytest.fixture
def feeding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feeding]:
    monkeypatch.setattr(module, "_IDLE_S", 0.001)
    monkeypatch.setattr(threads, "RETRY_FIRST_S", 0.001)
    monkeypatch.setattr(threads, "IDLE_WAIT_S", 0.01)
    made = Feeding(tmp_path)
    yield made
    made.stop()


def numbers(end: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def test_messages_come_in_order_and_the_source_ends(feeding: Feeding) -> None:
    reader = Numbers(10_000)
    feeder = feeding.start(reader)
    assert feeding.wait_for(10_000) == numbers(10_000)
    wait_until(lambda: feeder.ended)
    assert (feeder.problem, reader.closed) == (None, 1)


def test_a_restart_goes_on_behind_the_last_message_in_the_journal(feeding: Feeding) -> None:
    feeding.start(Numbers(10))
    feeding.wait_for(10)
    feeding.restart()
    reader = Numbers(15)
    feeding.start(reader)
    assert feeding.wait_for(15) == numbers(15)
    assert reader.positions == [9]


def test_messages_and_position_are_one_even_when_batches_have_consumed_them(
    feeding: Feeding,
) -> None:
    feeding.start(Numbers(10))
    feeding.wait_for(10)
    feeding.journal.consume(10)
    wait_until(lambda: feeding.journal.disk_bytes == 0)
    feeding.restart()
    feeding.start(Numbers(12))
    assert feeding.wait_for(12) == numbers(12, 10)


def test_a_source_that_has_nothing_now_is_asked_again(feeding: Feeding) -> None:
    there = threading.Event()

    class Later(MessageSource[int]):
        def read(self, position: int | None) -> Iterator[tuple[bytes, int] | None]:  # noqa: ARG002
            while not there.is_set():
                yield None
            yield b"late", 0

    feeder = feeding.start(Later())
    assert not feeder.ended
    there.set()
    assert feeding.wait_for(1) == [b"late"]


def test_what_a_source_raises_is_told_with_its_place_and_reading_goes_on_where_it_was(
    feeding: Feeding,
) -> None:
    reader = Numbers(20, {0: OSError("no line"), 7: ValueError("odd"), 8: SystemExit(1)})
    with capture_logs() as logs:
        feeder = feeding.start(reader)
        assert feeding.wait_for(20) == numbers(20)
        wait_until(lambda: feeder.ended)
    assert reader.positions == [None, None, 6, 7]
    failed = [entry["reason"] for entry in logs if entry["event"] == "source failed"]
    assert [reason.partition(" (test_source.py:")[0] for reason in failed] == [
        "OSError: no line",
        "ValueError: odd",
        "SystemExit: 1",
    ]
    assert (feeder.failures, feeder.problem) == (0, None)


def test_a_source_that_fails_again_and_again_says_so(feeding: Feeding) -> None:
    class Broken(MessageSource[int]):
        def read(self, position: int | None) -> Iterator[tuple[bytes, int]]:  # noqa: ARG002
            yield b"one", 1 // 0

    feeder = feeding.start(Broken())
    wait_until(lambda: feeder.failures >= 5)
    assert feeder.problem is not None
    assert feeder.problem.startswith("ZeroDivisionError: ")
    assert not feeder.ended


@pytest.mark.parametrize("item", [b"bytes alone", ("text", 1), (b"bytes", 1, 2), 7])
def test_a_source_that_yields_something_else_is_told_what_is_due(
    feeding: Feeding, item: Any
) -> None:
    feeder = feeding.start(Numbers(3, {2: lambda: item}))
    assert feeding.wait_for(3) == numbers(3)
    wait_until(lambda: feeder.ended)


def test_what_is_due_is_said_with_what_was_yielded(feeding: Feeding) -> None:
    with capture_logs() as logs:
        feeder = feeding.start(Numbers(1, {0: lambda: "hello"}))
        wait_until(lambda: feeder.ended)
    (reason,) = [entry["reason"] for entry in logs if entry["event"] == "source failed"]
    assert reason == (
        "TypeError: read() yielded 'hello', expected None or a pair of payload bytes and position"
    )


def test_a_source_that_can_never_go_on_ends_with_its_reason(feeding: Feeding) -> None:
    reader = Numbers(9, {5: FrameError("garbage at 5")})
    with capture_logs() as logs:
        feeder = feeding.start(reader)
        wait_until(lambda: feeder.ended)
    assert feeding.messages() == numbers(5)
    assert feeder.problem is not None
    assert "garbage at 5" in feeder.problem
    (told,) = [entry for entry in logs if entry["event"] == "source ended early"]
    assert (told["log_level"], told["source"], told["reads"]) == ("error", "numbers", "Numbers")


def test_what_a_source_has_refused_itself_is_refused_once(feeding: Feeding, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"123\n4\n")
    reader = feeding.start(
        FileSource(tmp_path / "lines", None, 2, follow=False), Framing(4, ">I", 2)
    )
    wait_until(lambda: reader.ended)
    (refused, taken) = feeding.messages()
    assert "byte 0: a message of 3 bytes; the limit is 2" in (refusal_reason(refused) or "")
    assert taken == b"4"


def test_no_sender_can_forge_a_refusal(feeding: Feeding, tmp_path: Path) -> None:
    forged = bytes(refusal("forged"))
    guarded_once = b"\0wallaroo:message:x"
    (tmp_path / "lines").write_bytes(forged + b"\n" + guarded_once + b"\n")
    source = FileSource(tmp_path / "lines", None, 100, follow=False)
    reader = feeding.start(source, Framing(4, ">I", 100))
    wait_until(lambda: reader.ended)
    found = feeding.messages()
    assert [refusal_reason(one) for one in found] == [None, None]
    assert [unguarded(one) for one in found] == [forged, guarded_once]


def test_a_message_over_the_limit_is_refused_and_the_source_goes_on(feeding: Feeding) -> None:
    feeder = feeding.start(Numbers(102), Framing(4, ">I", max_frame=2))
    wait_until(lambda: feeder.ended)
    found = feeding.messages()
    assert found[:100] == numbers(100)
    assert [refusal_reason(one) for one in found[100:]] == [
        f"Numbers, position {at}: a message of 3 bytes; the limit is 2: raise --max-frame; it "
        f"begins with b'{at}'"
        for at in (100, 101)
    ]
    assert feeder.problem is None


def test_a_full_journal_makes_a_source_wait(tmp_path: Path, feeding: Feeding) -> None:
    small = Feeding(tmp_path / "small", JournalLimits(disk_bytes=500))
    small.start(Numbers(1_000))
    wait_until(lambda: small.journal.disk_bytes >= 500)
    taken: list[bytes] = []
    held = 0
    while len(taken) < 1_000:
        assert small.journal.wait_accepted(0, len(taken) + 1, PATIENCE_S)
        held = max(held, small.journal.disk_bytes)
        taken += small.messages()
        small.journal.consume(len(taken))
    small.stop()
    assert taken == numbers(1_000)
    assert held < 500 + 7


def test_a_source_is_not_read_far_ahead_though_there_is_room(
    feeding: Feeding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "AHEAD_BYTES", 500)
    feeding.journal.submit(1, 1, U32.frame(bytes(10_000)))  # another source's
    feeding.start(Numbers(1_000))
    assert feeding.journal.wait_accepted(0, 80, PATIENCE_S)
    feeding.restart()  # what is held counts after a start, too
    assert feeding.journal.disk_bytes < 10_004 + 507
    assert not feeding.journal.wait_for_room(0, 500, 0.0)
    assert feeding.journal.wait_for_room(0, 600, 0.0)


def test_nothing_is_taken_after_a_stop_even_of_a_source_that_does_not_stop(
    feeding: Feeding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "STOP_S", 0.01)
    go_on, went_on = threading.Event(), threading.Event()

    class Stuck(MessageSource[int]):
        def read(self, position: int | None) -> Iterator[tuple[bytes, int]]:  # noqa: ARG002
            yield b"one", 1
            go_on.wait(PATIENCE_S)
            try:
                yield b"two", 2
            finally:
                went_on.set()

    feeder = feeding.start(Stuck())
    feeding.wait_for(1)
    with capture_logs() as logs:
        feeder.stop()
    assert [(entry["event"], entry["reason"]) for entry in logs] == [
        ("source does not stop", "a call of its read(), decoder or time= has not returned")
    ]
    go_on.set()
    assert went_on.wait(PATIENCE_S)
    assert feeding.messages() == [b"one"]


def test_a_stop_lets_the_source_close(feeding: Feeding) -> None:
    reader = Numbers(10**9)
    feeder = feeding.start(reader)
    feeding.wait_for(1)
    feeder.stop()
    taken = feeding.messages()
    assert taken == numbers(len(taken))
    assert (reader.closed, feeder.ended) == (1, False)


@pytest.mark.parametrize("fails_at", [None, 0, 40])
def test_sources_that_meet_are_read_in_the_order_of_time(
    feeding: Feeding, fails_at: int | None
) -> None:
    every, third = Numbers(100), Numbers(30)
    if fails_at is not None:
        every.troubles[fails_at] = OSError("not now")
    sources = [
        CustomSource("every", U32, bytes, NOWHERE, every, time=int),
        CustomSource("third", U32, bytes, NOWHERE, third, time=lambda number: 3 * int(number)),
    ]
    clock = Standstills(time.monotonic)
    turns = turns_among(members_of([0, 1], sources, clock), clock)
    context = ConnectorContext(feeding.journal, feeding.store.outbox, turns=turns)
    for index, source in enumerate(sources):
        reader = PythonSourceReader(context, index, source)
        feeding.readers.append(reader)
        reader.start()
    wait_until(lambda: all(reader.ended for reader in feeding.readers))
    assert feeding.journal.flush(PATIENCE_S)
    times = [
        int(payload) * (3 if block.source else 1)
        for block in feeding.journal.read(0, feeding.journal.end)
        for payload in U32.split(block.data)
    ]
    assert times == sorted([*range(100), *range(0, 90, 3)])


def test_a_source_that_meets_no_other_is_asked_for_no_times(feeding: Feeding) -> None:
    def time_of(_number: bytes) -> int:
        asked.set()
        return 0

    asked = threading.Event()
    source = CustomSource("alone", U32, bytes, NOWHERE, Numbers(10), time=time_of)
    clock = Standstills(time.monotonic)
    turns = turns_among(members_of([0], [source], clock), clock)
    reader = PythonSourceReader(
        ConnectorContext(feeding.journal, feeding.store.outbox, turns=turns), 0, source
    )
    feeding.readers.append(reader)
    reader.start()
    wait_until(lambda: reader.ended)
    assert feeding.messages() == numbers(10)
    assert not asked.is_set()
