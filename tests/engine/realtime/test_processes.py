"""The processes of a real-time query, killed and poisoned, with a stand-in for Spark."""

from __future__ import annotations

import contextlib
import pickle
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.engine.realtime.harness import (
    PATIENCE_S,
    RUN,
    GatewaySide,
    StandIn,
    Store,
    gateway_side,
    submit,
    wait_until_processed,
)
from tests.helpers import ASKING, KILLING, wait_until
from wallaroo.engine.realtime.feed import Feed
from wallaroo.engine.realtime.job import Job
from wallaroo.engine.realtime.process import CUT_OFF
from wallaroo.engine.spark.errors import Failure
from wallaroo.engine.spark.slots import slots_for
from wallaroo.engine.spark.worker_version import version_here
from wallaroo.gateway.chunks.pace import Pace, Resumes
from wallaroo.gateway.internal_api.calls import OTHER_WIRING
from wallaroo.loading.loader import ApplicationRef
from wallaroo.system.credentials import TOKEN_VARIABLE
from wallaroo.wire.channel import connect
from wallaroo.wire.chunk_messages import (
    BEGIN,
    DAMAGED,
    DRIVER,
    HELLO,
    READER,
    TASK,
    CheckpointPosition,
    Hello,
    Report,
    Task,
    pack_json,
    pack_report,
    task_in,
)
from wallaroo.wire.frame_socket import FrameSocket
from wallaroo.wire.records import Tally

PARTITIONS = 2


@pytest.fixture
def reference() -> ApplicationRef:
    return ApplicationRef(str(KILLING), ("--in", "127.0.0.1:0", "--out", "127.0.0.1:1"))


class Processes:
    """The processes of one query, and what moves frames between them."""

    def __init__(
        self,
        gateway: GatewaySide,
        reference: ApplicationRef,
        store: Store,
        attempt: int,
        call_limit_s: float = 5.0,
        version: str | None = None,
    ) -> None:
        checkpoint = gateway.path.with_name("checkpoint")
        checkpoint.mkdir(exist_ok=True)
        (checkpoint / "metadata").write_text(RUN)
        buckets = 8 * PARTITIONS
        job = Job(
            reference,
            str(gateway.path),
            gateway.claim,
            attempt,
            checkpoint,
            PARTITIONS,
            buckets,
            slots_for(buckets),
            call_limit_s,
            version=version or version_here(),
        )
        roles = (READER, *range(PARTITIONS))
        hello = Hello(gateway.claim, attempt, DRIVER, PARTITIONS)
        self.feed = Feed(gateway.path, hello, lambda *_: None)
        self.agent = AgentProcess()
        java = [self.agent.start(job, role) for role in roles]
        self._java = java
        threading.Thread(target=StandIn(java[0], java[1:]).run, args=(store,), daemon=True).start()

    def kill(self) -> None:
        for child in psutil.Process(self.agent.process.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):  # one ends without the other
                child.kill()

    def close(self) -> None:
        self.feed.close()
        self.agent.close()
        for connection in self._java:
            connection.close()


class AgentProcess:
    """An agent, as Java starts it."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "wallaroo.engine.realtime.agent"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._commands, self._reports = self.process.stdin, self.process.stdout
        self.directory = Path(self.report())

    def start(self, job: Job, role: int) -> FrameSocket:
        """Start a process; its connection."""
        path = self.directory / f"{job.attempt}.{role}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(1)
            parts = ("start", path.name, str(role), str(path), "")
            self._write("\0".join(parts).encode(), pickle.dumps(job))
            return FrameSocket(listener.accept()[0])

    def kill(self, name: str) -> None:
        """Kill a process."""
        self._write(f"kill\0{name}".encode())

    def report(self) -> str:
        """The next line that Java would read."""
        return self._reports.readline().decode().rstrip("\n")

    def close(self) -> None:
        """End as Java would."""
        if self._commands.closed:
            return
        self._commands.close()
        assert self.process.wait(20) == 0
        self._reports.close()

    def _write(self, *frames: bytes) -> None:
        for frame in frames:
            self._commands.write(len(frame).to_bytes(4) + frame)
        self._commands.flush()


@contextlib.contextmanager
def running(
    gateway: GatewaySide, reference: ApplicationRef, store: Store, attempt: int
) -> Iterator[Processes]:
    processes = Processes(gateway, reference, store, attempt)
    try:
        yield processes
    finally:
        processes.close()


def test_processes_that_are_killed_leave_nothing_undone(
    reference: ApplicationRef, tmp_path: Path
) -> None:
    application, store = reference.load(), Store()
    with gateway_side(tmp_path, application) as gateway:
        gateway.server._resumes = Resumes()
        with running(gateway, reference, store, 1) as first:
            submit(gateway, application, [("in", b"%d" % (n % 10)) for n in range(1_000)])
            wait_until(lambda: gateway.outbox.undelivered, "the first outputs")
            first.kill()
            submit(gateway, application, [("in", b"%d" % (n % 10)) for n in range(1_000)])
            wait_until(lambda: first.feed.failure is not None, "the end of the query")
        with running(gateway, reference, store, 2) as second:
            wait_until_processed(gateway, 2_000)
            second.feed.finish_epoch()
        (framed,) = gateway.outputs(application).values()
        outputs = [output[4:] for output in framed]
    assert store.commits == 1
    assert len(outputs) == 2_000
    for key in range(10):
        of_key = [output for output in outputs if output[:1] == b"%d" % key]
        assert of_key == [b"%d%d" % (key, n + 1) for n in range(200)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the environment of processes")
def test_neither_processes_nor_their_agent_show_the_token(
    reference: ApplicationRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "a token that is long enough"
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    monkeypatch.setenv("WALLAROO_OTHER", "is kept")
    application = reference.load()
    with (
        gateway_side(tmp_path, application) as gateway,
        running(gateway, reference, Store(), 1) as processes,
    ):
        submit(gateway, application, [("in", b"a")])
        wait_until_processed(gateway, 1)
        agent = psutil.Process(processes.agent.process.pid)
        shown = [process.environ() for process in (agent, *agent.children())]
        processes.feed.finish_epoch()
    assert len(shown) == 2 + PARTITIONS
    assert {environment["WALLAROO_OTHER"] for environment in shown} == {"is kept"}
    assert not any(token in environment.values() for environment in shown)


def test_a_message_that_kills_its_process_becomes_a_dead_letter(
    reference: ApplicationRef, tmp_path: Path
) -> None:
    application, store = reference.load(), Store()
    with gateway_side(tmp_path, application) as gateway:
        gateway.server._resumes = Resumes()
        with running(gateway, reference, store, 1) as first:
            submit(gateway, application, [("in", b"a"), ("in", b"kill"), ("in", b"b")])
            wait_until(lambda: first.feed.failure is not None, "the end of the query")
        with running(gateway, reference, store, 2) as second:
            submit(gateway, application, [("in", b"a")])
            wait_until_processed(gateway, 4)
            second.feed.finish_epoch()
        (framed,) = gateway.outputs(application).values()
        outputs = [output[4:] for output in framed]
        assert gateway.outbox.counters()["letters"] == 1
    assert sorted(outputs) == [b"a1", b"a2", b"b1"]


def test_processes_that_are_killed_while_calls_wait_lose_and_repeat_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / "app").mkdir()
    file = shutil.copy(ASKING, tmp_path / "app" / "application.py")
    calls = Path(file).with_name("calls")
    reference = ApplicationRef(str(file), ("--in", "127.0.0.1:0", "--out", "127.0.0.1:1"))
    application, store = reference.load(), Store()
    texts = [f"{'abc'[n % 3]}{n}" for n in range(400)]
    texts[150:150], texts[300:300] = ["kill"], ["bad"]
    with gateway_side(tmp_path, application, Pace(chunk_bytes=500)) as gateway:
        gateway.server._resumes = Resumes()
        submit(gateway, application, [("Asked", text.encode()) for text in texts])
        assert gateway.journal.flush(PATIENCE_S)
        attempt, failures = 0, 0
        while gateway.journal.backlog:
            attempt += 1
            with running(gateway, reference, store, attempt) as processes:
                if attempt <= 2:
                    calls.unlink(missing_ok=True)
                    wait_until(calls.exists, "a call")
                    processes.kill()
                wait_until(
                    lambda one=processes: one.feed.failure or not gateway.journal.backlog,  # type: ignore[misc]
                    "the end",
                )
                failures += processes.feed.failure is not None
        (outputs,) = gateway.outputs(application).values()
        assert gateway.outbox.counters()["letters"] == 2
    assert failures >= 2
    for letter in "abc":
        of_key = [text for text in texts if text[0] == letter and text != "bad"]
        due = [f"{text} {len(text)} {n}\n".encode() for n, text in enumerate(of_key, 1)]
        assert [output for output in outputs if output.startswith(letter.encode())] == due


def test_the_processes_end_with_java_and_tell_how_they_ended(
    reference: ApplicationRef, tmp_path: Path
) -> None:
    application, store = reference.load(), Store()
    with (
        gateway_side(tmp_path, application) as gateway,
        running(gateway, reference, store, 1) as processes,
    ):
        agent = processes.agent
        wait_until(lambda: len(joined(gateway)) == 2 + PARTITIONS, "all processes")
        assert agent.directory.stat().st_mode & 0o777 == 0o700
        children = psutil.Process(agent.process.pid).children()
        agent.kill("1.0")
        # the gateway misses one, and cuts off the others
        reports = {agent.report() for _ in range(1 + PARTITIONS)}
        assert reports == {"1.0 -9", f"1.-1 {CUT_OFF}", f"1.1 {CUT_OFF}"}
        agent.close()
    assert not psutil.wait_procs(children, 20)[1]
    assert not agent.directory.exists()


def joined(gateway: GatewaySide) -> set[int]:
    """The roles that take part in the run."""
    run = gateway.server._run
    return set() if run is None else {r for r in range(-2, PARTITIONS) if r in run._processes}


def test_user_code_that_hangs_does_not_keep_a_process_that_is_cut_off(
    reference: ApplicationRef, tmp_path: Path
) -> None:
    application, store, hangs = reference.load(), Store(), tmp_path / "hangs"
    with gateway_side(tmp_path, application) as gateway:
        processes = Processes(gateway, reference, store, 1, call_limit_s=0.0)
        submit(gateway, application, [("in", b"hang %s" % bytes(hangs))])
        wait_until(hangs.exists, "the call")
        processes.feed.close()
        ended = [processes.agent.report() for _ in range(1 + PARTITIONS)]
        processes.close()
    assert {line.split()[1] for line in ended} == {str(CUT_OFF)}


@pytest.mark.parametrize("end", ["the process is killed", "the run ends"])
def test_processes_that_user_code_has_started_end_with_theirs(
    reference: ApplicationRef, tmp_path: Path, end: str
) -> None:
    application, store, note = reference.load(), Store(), tmp_path / "note"
    with gateway_side(tmp_path, application) as gateway:
        # no limit: a slow call would be tried in a copy, whose processes end with it
        processes = Processes(gateway, reference, store, 1, call_limit_s=0.0)
        try:
            submit(gateway, application, [("in", b"start %s" % bytes(note))])
            wait_until(lambda: note.exists() and note.read_text(), "its process")
            started = psutil.Process(int(note.read_text()))
            if end == "the process is killed":
                processes.kill()
            else:
                processes.agent.close()
            assert not psutil.wait_procs([started], 20)[1]
        finally:
            processes.close()


def end_of(
    directory: Path, reference: ApplicationRef, store: Store, version: str | None = None
) -> Failure:
    """Why a query ended by itself whose processes are of *version*; None for this one."""
    with gateway_side(directory, reference.load()) as gateway:
        processes = Processes(gateway, reference, store, 1, version=version)
        try:
            wait_until(lambda: processes.feed.failure, "the end of the query")
            failure = processes.feed.failure
        finally:
            processes.close()
    assert failure is not None
    return failure


def test_processes_of_another_version_end_the_query_for_good(
    tmp_path: Path, reference: ApplicationRef
) -> None:
    failure = end_of(tmp_path, reference, Store(), version="wallaroo 9.9 on Python 3.99")
    assert failure.final
    assert failure.reason == (
        f"the driver runs wallaroo 9.9 on Python 3.99, and a worker {version_here()}: "
        "give driver and executors the same image"
    )


def test_what_a_process_finds_damaged_ends_the_query_for_good(
    tmp_path: Path, reference: ApplicationRef
) -> None:
    store = Store()
    store.logs = dict.fromkeys(slots_for(PARTITIONS * 8), (bytes(24) + b"1 log 0 0", {}))
    failure = end_of(tmp_path, reference, store)
    assert failure.final
    assert "the head '1 log 0 0' of a log does not match its checksum; restore" in failure.reason


@pytest.mark.parametrize(
    "frame",
    [
        pack_json(HELLO, [1, 1, READER, PARTITIONS, None, "one more"]),
        pack_json(HELLO, {"of": "another kind"}),
        HELLO + b"not JSON",
    ],
)
def test_a_process_that_the_gateway_does_not_understand_ends_the_query_for_good(
    tmp_path: Path, reference: ApplicationRef, frame: bytes
) -> None:
    with gateway_side(tmp_path, reference.load()) as gateway:
        feed = Feed(gateway.path, Hello(gateway.claim, 1, DRIVER, PARTITIONS), lambda *_: None)
        process = connect(str(gateway.path))
        wait_until(lambda: gateway.server._run is not None, "the run")
        process.send(frame)
        wait_until(lambda: feed.failure, "the end of the query")
        failure = feed.failure
        feed.close()
        process.close()
    assert failure is not None
    assert failure.final
    assert "does not understand a process of the query" in failure.reason
    assert failure.reason.endswith("run gateway, driver and executors from one image")


def test_a_driver_that_joins_after_its_run_has_failed_is_told_why(
    tmp_path: Path, reference: ApplicationRef
) -> None:
    with gateway_side(tmp_path, reference.load()) as gateway:
        reader = connect(str(gateway.path))
        reader.send(pack_json(HELLO, Hello(gateway.claim, 1, READER, 1)))
        reader.send(pack_json(DAMAGED, "the log of a bucket is old"))
        assert reader.receive() is None  # cut off
        feed = Feed(gateway.path, Hello(gateway.claim, 1, DRIVER, 1), lambda *_: None)
        wait_until(lambda: feed.failure, "the end of the query")
        feed.close()
        reader.close()
    assert feed.failure == Failure("the log of a bucket is old", final=True)


def test_a_query_of_an_application_of_other_wiring_is_turned_away(
    tmp_path: Path, reference: ApplicationRef
) -> None:
    with gateway_side(tmp_path, reference.load(), wiring="of the gateway") as gateway:
        feed = Feed(gateway.path, Hello(gateway.claim, 1, DRIVER, 1, "another"), lambda *_: None)
        wait_until(lambda: feed.failure, "the end of the query")
        feed.close()
        assert gateway.server._run is None
    assert feed.failure == Failure(OTHER_WIRING, final=False)


def test_a_refused_output_ends_the_query_and_those_after_it(
    tmp_path: Path, reference: ApplicationRef
) -> None:
    failures = []
    with gateway_side(tmp_path, reference.load()) as gateway:
        for attempt in (1, 2):
            hello = Hello(gateway.claim, attempt, DRIVER, 1)
            feed = Feed(gateway.path, hello, lambda *_: None)
            if attempt == 1:
                gateway.store.outbox.stopped = "output 7 is refused"
                gateway.store.outbox.on_stopped()
            wait_until(lambda: feed.failure, "the end of the query")  # noqa: B023
            failures.append(feed.failure)
            feed.close()
    assert failures == [Failure("output 7 is refused", final=True)] * 2


def test_large_messages_are_under_way_one_or_two_at_a_time(
    tmp_path: Path, reference: ApplicationRef
) -> None:
    large, messages = Pace().under_way_bytes * 3 // 4, 4
    pace = Pace(quiet_s=PATIENCE_S, epoch_first_s=PATIENCE_S)
    with gateway_side(tmp_path, reference.load(), pace) as gateway:
        feed = Feed(gateway.path, Hello(gateway.claim, 1, DRIVER, 1), lambda *_: None)
        reader, partition = (connect(str(gateway.path)) for _ in range(2))
        for process, role in ((reader, READER), (partition, 0)):
            process.send(pack_json(HELLO, Hello(gateway.claim, 1, role, 1)))
        for _ in range(messages):
            gateway.journal.submit(0, 1, bytes(large))
            assert gateway.journal.flush(PATIENCE_S)
        reader.send(pack_json(BEGIN, [RUN, False, *CheckpointPosition()]))
        waiting: list[Task] = []
        ran = 0
        while ran < messages:
            while len(waiting) + ran < messages and is_sent(
                reader, PATIENCE_S if len(waiting) < 2 else 0.2
            ):
                frame = reader.receive()
                assert frame is not None
                waiting.append(task_in(frame))
            assert len(waiting) == min(2, messages - ran)
            reader.send(*pack_report(Report(waiting.pop(0).number, [], Tally())))
            ran += 1
        feed.close()
        reader.close()
        partition.close()


def test_the_time_until_the_first_epoch_begins_is_not_taken_for_quiet(
    tmp_path: Path, reference: ApplicationRef
) -> None:
    pace = Pace(quiet_s=0.2)
    with gateway_side(tmp_path, reference.load(), pace) as gateway:
        feed = Feed(gateway.path, Hello(gateway.claim, 1, DRIVER, 1), lambda *_: None)
        wait_until(lambda: gateway.server._run is not None, "the run")
        time.sleep(1.5 * pace.quiet_s)  # Spark starts
        reader, partition = (connect(str(gateway.path)) for _ in range(2))
        for process, role in ((reader, READER), (partition, 0)):
            process.send(pack_json(HELLO, Hello(gateway.claim, 1, role, 1)))
        submit(gateway, reference.load(), [("in", b"a")])
        assert gateway.journal.flush(PATIENCE_S)
        reader.send(pack_json(BEGIN, [RUN, False, *CheckpointPosition()]))
        frame = reader.receive()
        assert frame is not None
        assert frame[:1] == TASK
        feed.close()
        reader.close()
        partition.close()


def is_sent(frames: FrameSocket, seconds: float) -> bool:
    """Whether something is there to be received within so many seconds."""
    return bool(select.select([frames.fileno()], [], [], seconds)[0])
