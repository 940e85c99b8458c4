"""Log and checkpoint that do not belong together: every pair of copies is refused."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.helpers import free_address, processes_below, wait_until
from tests.spark.harness import APPS, PATIENCE_S, Receiver, run, send
from wallaroo.engine.realtime import checkpoint as of_checkpoint
from wallaroo.errors import UsageError
from wallaroo.gateway.consistency.agreement import held_by
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.reading import Reading
from wallaroo.run.background_run import BackgroundRun
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.state.start_check import LocalFiles, agree
from wallaroo.wire.checkpoint_progress import CheckpointProgress

pytestmark = pytest.mark.spark

APP = APPS / "word_count"
SOURCE = "Split and Count"
CHUNKS = 3
"""Chunks between two copies."""
SOON = "epoch_first_s=0.3,epoch_least_s=0.2,epoch_most_s=1,quiet_s=0.1"
"""Ends of epochs that a test need not wait for."""
NONE, OLDER, MIDDLE, NEWER = range(4)
NAMES = ("absent", "older", "middle", "newer")
TOGETHER = [(age, age) for age in range(4)]
APART = [ages for ages in itertools.product(range(4), repeat=2) if ages not in TOGETHER]


@pytest.fixture(scope="module", autouse=True)
def pace() -> Iterator[None]:
    """Let epochs end soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WALLAROO_PACE", SOON)
        yield


@pytest.fixture(scope="module")
def copies(pace: None, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A state directory at three moments of one run, and one that nothing has been in yet."""
    root = tmp_path_factory.mktemp("copies")
    state = root / "state"
    made = [root / name for name in NAMES]
    made[NONE].mkdir()
    with Receiver("lines") as receiver, run(APP, receiver, state) as running:
        for copy in made[OLDER:]:
            for _ in range(CHUNKS):
                _process(running, receiver, b"a b")
            _wait_until_idle(state)
            shutil.copytree(state, copy, ignore=shutil.ignore_patterns("*lock"))
            if copy is made[OLDER]:
                shutil.copy(state / "application.json", made[NONE])
        assert running.stop() == 0
    return made


def progress_of(state: Path) -> CheckpointProgress:
    """How far the checkpoint of the state directory *state* is."""
    return of_checkpoint.progress_of(state / "checkpoint")


def _process(running: BackgroundRun, receiver: Receiver, payload: bytes) -> None:
    """Send a message that makes two outputs, and wait until its chunk is published."""
    seen = len(receiver.messages)
    send(running.sources[SOURCE], [payload])
    receiver.wait_for(seen + 2)
    running.wait_until_processed()


def _wait_until_idle(state: Path) -> None:
    """Wait until Spark has committed what is published, and the gateway knows."""

    def idle() -> bool:
        held = held_by(Reading(state / LOG))
        return held.trimmed == held.end

    wait_until(idle, "the commit")


def _put_together(directory: Path, copies: Sequence[Path], ages: Sequence[int]) -> Path:
    """A state directory of a log and a checkpoint of these ages."""
    shutil.copytree(copies[NONE], directory)
    log, checkpoint = (copies[age] for age in ages)
    for file in (*log.glob("log-mark"), *log.glob("letters.db*")):
        shutil.copy(file, directory)
    if (log / "log").exists():
        shutil.copytree(log / "log", directory / "log")
    if (checkpoint / "checkpoint").exists():
        shutil.copytree(checkpoint / "checkpoint", directory / "checkpoint")
    return directory


def _agree(directory: Path, *, accept_lost: bool = False) -> None:
    state = StateDirectory(directory, "Word Count Application", 2)
    try:
        agree(state, LocalFiles(state.path), accept_lost=accept_lost)
    finally:
        state.close()


@pytest.mark.parametrize("ages", TOGETHER)
def test_what_was_copied_together_starts(
    tmp_path: Path, copies: list[Path], ages: tuple[int, int]
) -> None:
    _agree(_put_together(tmp_path / "state", copies, ages))


@pytest.mark.parametrize("ages", APART, ids=lambda ages: "-".join(NAMES[age] for age in ages))
def test_what_was_not_is_refused_with_both_positions_and_what_to_restore(
    tmp_path: Path, copies: list[Path], ages: tuple[int, int]
) -> None:
    log, checkpoint = ages
    directory = _put_together(tmp_path / "state", copies, ages)
    with pytest.raises(UsageError) as refused:
        _agree(directory, accept_lost=log > checkpoint)
    told = str(refused.value)
    assert str(directory / "checkpoint") in told
    processed = {age: CHUNKS * age for age in range(4)}
    if log > checkpoint:
        assert f"before {processed[log]} as processed" in told
        assert ("has no epoch" if not checkpoint else f"before {processed[checkpoint]},") in told
        if not checkpoint:
            assert f"published chunks up to {processed[log]}" in told
        assert "Restore the checkpoint that belongs to the log" in told
    else:
        assert f"the messages before {processed[checkpoint]}" in told
        has = f"only those before {processed[log]}" if log else "has none of them"
        assert has in told
        assert "Restore the log that belongs to this checkpoint, or start with" in told


def test_a_run_on_a_lost_log_is_refused_before_its_gateway_starts(
    tmp_path: Path, copies: list[Path]
) -> None:
    directory = _put_together(tmp_path / "state", copies, (NONE, NEWER))
    with Receiver("lines") as receiver:
        refused = run(APP, receiver, directory)
        seen: set[str] = set()
        while refused.process.poll() is None:
            seen.update(processes_below(refused.process.pid).values())
            with contextlib.suppress(subprocess.TimeoutExpired):
                refused.process.wait(0.02)
        refused.__exit__()
    assert refused.process.returncode == 2
    assert "has the messages before 9, but the log has none of them" in refused.events[-1]["event"]
    assert not [command for command in seen if " gateway " in command]
    assert not (directory / "log").exists()


@pytest.mark.parametrize("ages", [(NONE, NEWER), (OLDER, NEWER)])
def test_lost_files_that_are_accepted_skip_nothing_new(
    tmp_path: Path, copies: list[Path], ages: tuple[int, int]
) -> None:
    directory = _put_together(tmp_path / "state", copies, ages)
    before = progress_of(directory)
    with (
        Receiver("lines") as receiver,
        run(APP, receiver, directory, options=["--accept-lost-journal"]) as running,
    ):
        assert running.client is not None
        assert "lost files accepted" in [event["event"] for event in running.events]
        assert running.client.status().backlog >= 0
        for number in range(1, 4):
            send(running.sources[SOURCE], [b"a b"])
            receiver.wait_for(2 * number)
        assert running.stop() == 0
    assert set(receiver.messages) == {
        b"%s => %d\n" % (word, before.end + number) for word in (b"a", b"b") for number in (1, 2, 3)
    }
    assert progress_of(directory).end == before.end + 3
    _agree(directory)


def test_a_log_that_was_lost_after_a_kill_skips_nothing_new(
    tmp_path: Path, copies: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was published after Spark's last commit is lost with it; the state before is not."""
    monkeypatch.setenv("WALLAROO_PACE", "epoch_first_s=600,epoch_least_s=600,quiet_s=600")
    state = shutil.copytree(copies[OLDER], tmp_path / "state")
    before = progress_of(state).end
    with Receiver("lines") as receiver, run(APP, receiver, state) as killed:
        for _ in range(2):
            _process(killed, receiver, b"a b")
        killed.process.kill()
        killed.process.wait()
    wait_until(lambda: held_by(Reading(state / LOG)).end == before + 2, "the log's last message")
    shutil.rmtree(state / "log")
    options = ["--accept-lost-journal"]
    with Receiver("lines") as receiver, run(APP, receiver, state, options=options) as running:
        for number in range(1, 4):
            _process(running, receiver, b"a b")
            assert receiver.messages[-1].endswith(b"=> %d\n" % (before + number))
        assert running.stop() == 0
    _agree(state)


def test_a_driver_refuses_a_gateway_whose_volume_was_lost_and_skips_nothing_it_took(
    tmp_path: Path,
) -> None:
    """Senders are heard while no driver is there: what they sent must not count as processed."""
    token = tmp_path / "token"
    token.write_text("a token that is long enough")
    door, port = free_address(), free_address()

    def command(name: str, *arguments: str) -> BackgroundRun:
        shared = ("--in", port, "--out", receiver.address, "--token-file", str(token))
        return BackgroundRun([name, str(APP), *shared, *arguments])

    def gateway(directory: str) -> BackgroundRun:
        return command("gateway", "--listen", door, "--state-dir", str(tmp_path / directory))

    def driver(*options: str) -> BackgroundRun:
        state = ("--state-dir", str(tmp_path / "state"), "--partitions", "2")
        return command("driver", "--gateway", door, *state, "--master", "local[1]", *options)

    def stop(background: BackgroundRun) -> None:
        assert background.stop() == 0
        background.__exit__()

    with Receiver("lines") as receiver:
        first = gateway("first")
        first.wait_for_event("ready", PATIENCE_S)
        driving = driver()
        driving.wait_for_event("ready", PATIENCE_S)
        send(port, [b"a b"] * 3)
        receiver.wait_for(6)
        _wait_until_idle(tmp_path / "state")
        stop(driving)
        stop(first)
        second = gateway("second")
        second.wait_for_event("ready", PATIENCE_S)
        send(port, [b"a b"] * 5)  # more than the first one had
        refused = driver()
        assert refused.process.wait(PATIENCE_S) == 2
        refused.__exit__()
        told = refused.events[-1]["event"]
        assert "has the messages before 3, but the log has none of them" in told
        accepted = driver("--accept-lost-journal")
        accepted.wait_for_event("ready", PATIENCE_S)
        send(port, [b"a b"])
        receiver.wait_for(18)
        _wait_until_idle(tmp_path / "state")
        stop(accepted)
        stop(second)
    assert sorted(receiver.messages) == sorted(
        b"%s => %d\n" % (word, number) for word in (b"a", b"b") for number in range(1, 10)
    )


def test_the_wallaroo_command_names_the_way_out() -> None:
    for command in ("run", "driver"):
        told = subprocess.run(
            [sys.executable, "-m", "wallaroo", command, "--help"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert "--accept-lost-journal" in told
