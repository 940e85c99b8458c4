"""Snapshots of state directories whose log a gateway is writing, without Spark."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.gateway.harness import U32, opened
from tests.gateway.log_files import segments
from tests.helpers import PATIENCE_S
from tests.run.state.snapshots.harness import RUN, check, commit, forget, new_state, process
from wallaroo.cli.main import main
from wallaroo.engine.realtime.checkpoint import has_begun, is_new, place_of, progress_of
from wallaroo.engine.spark.checkpoint.epochs import last_commit
from wallaroo.engine.spark.checkpoint.opened import Moment
from wallaroo.errors import UsageError
from wallaroo.gateway.consistency.agreement import read_held
from wallaroo.gateway.dead_letters.letters import Letter
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.log.scan import PinnedLog
from wallaroo.gateway.marks import read_mark
from wallaroo.gateway.store import Store
from wallaroo.run.state.directory import StateDirectory, read_fixed
from wallaroo.run.state.snapshots import state_copy
from wallaroo.system.lockfile import hold
from wallaroo.wire.records import FailedMessage


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory that nothing has been in yet."""
    return new_state(tmp_path)


@pytest.fixture
def store(state: Path) -> Iterator[Store]:
    """The store of its gateway, with two messages in the checkpoint, one after it, and one that
    waits."""
    with opened(state, application="Echo", sinks=["out"]) as store:
        for chunk in (1, 2, 3):
            process(store, chunk)
        commit(state, 0, 2, store.journal.opening)
        forget(store, 2)
        store.journal.submit(0, 1, U32.frame(b"waits"))
        assert store.journal.flush(PATIENCE_S)
        yield store


def take(state: Path, target: Path, *options: str) -> Result:
    arguments = ["snapshot", "--state-dir", str(state), "--to", str(target), *options]
    return CliRunner().invoke(main, arguments)


def left(directory: Path) -> set[str]:
    return {file.name for file in directory.iterdir()}


def test_a_directory_in_use_is_copied_and_the_copy_is_described(
    tmp_path: Path, state: Path, store: Store
) -> None:
    result = take(state, tmp_path / "backups" / "copy")
    assert result.exit_code == 0, result.output
    copy = tmp_path / "backups" / "copy"
    told = "position 3, epoch 0, 1 message waiting, 3 outputs undelivered, "
    assert result.stdout.startswith(f"{copy}: {told}")
    assert "; the state of its checkpoint ends before offset 2\n" in result.stdout
    check(copy)
    assert left(tmp_path / "backups") == {"copy"}
    assert not left(copy) & {"lock", "gateway.lock", "endpoint.json", "snapshot.lock"}
    place = place_of(copy / "checkpoint", last_commit(copy / "checkpoint"))
    assert has_begun(copy / "checkpoint", place)
    with opened(copy, application="Echo", sinks=["out"]) as copied:
        assert copied.journal.end == store.journal.end == 4
        assert [*copied.outbox.changes(RUN, 2)] == [b"change"]
        assert copied.outbox.queues.undelivered(0) == 3
    check(state)


def test_a_directory_that_is_not_in_use_is_copied_as_well(tmp_path: Path, state: Path) -> None:
    with opened(state, application="Echo") as store:
        process(store, 1)
        commit(state, 0, 1, store.journal.opening)
        forget(store, 1)
    result = take(state, tmp_path / "copy")
    assert "position 1, epoch 0, 0 messages waiting" in result.output
    check(tmp_path / "copy")


def test_log_and_checkpoint_in_different_directories_are_copied_into_one(
    tmp_path: Path, state: Path, store: Store
) -> None:
    own, gateway = tmp_path / "own", tmp_path / "gateway"
    shutil.copytree(state, gateway, ignore=shutil.ignore_patterns("checkpoint", "application.json"))
    shutil.copytree(state, own, ignore=shutil.ignore_patterns("log*", "letters*"))
    (gateway / "claim.json").touch()
    assert f"{own} contains no log" in take(own, tmp_path / "copy").output
    assert "name a directory" in take(own, gateway / "copy", f"--log-dir={gateway}").output
    result = take(own, tmp_path / "copy", f"--log-dir={gateway}")
    assert "position 3, epoch 0, 1 message waiting, 3 outputs undelivered" in result.output
    check(tmp_path / "copy")
    assert {"application.json", "checkpoint", "claim.json", "log"} <= left(tmp_path / "copy")
    content = bytearray(segments(gateway)[0].read_bytes())
    content[100:140] = b"\xff" * 40
    segments(gateway)[0].write_bytes(content)
    result = take(own, tmp_path / "another", f"--log-dir={gateway}")
    assert f"{segments(gateway)[0]} is damaged" in result.output


def test_the_oldest_snapshots_are_removed_and_nothing_else(
    tmp_path: Path, state: Path, store: Store
) -> None:
    StateDirectory(tmp_path / "other", "Other", 2).close()
    shutil.copytree(state, tmp_path / "copied")
    for name in ("../elsewhere/one", "started", "with-notes", "1", "2", "3"):
        assert take(state, tmp_path / "backups" / name).exit_code == 0
    backups = tmp_path / "backups"
    (backups / "latest").symlink_to(backups / "1")
    (backups / "far").symlink_to(tmp_path / "elsewhere" / "one")
    shutil.copytree(backups / "1", backups / "for-good")
    (backups / "started" / "lock").touch()
    (backups / "with-notes" / "NOTES.txt").touch()
    (backups / "file").touch()
    kept = left(backups) - {"1", "2"}
    for name in (".killed.partial", ".going-on.partial", ".mine.partial"):
        (backups / name).mkdir()
    (backups / ".killed.partial" / "snapshot.lock").touch()
    going_on = hold(backups / ".going-on.partial" / "snapshot.lock", "")
    kept |= {".going-on.partial", ".mine.partial"}
    result = take(state, backups / "4", "--keep", "2")
    os.close(going_on)
    assert result.stdout.splitlines()[1:] == [f"{backups / n}: removed" for n in ("2", "1")]
    assert left(backups) == {*kept, "4"}
    assert (tmp_path / "elsewhere" / "one" / "snapshot.json").exists()


def test_a_target_that_cannot_be_is_named(tmp_path: Path, state: Path, store: Store) -> None:
    url = CliRunner().invoke(main, ["snapshot", f"--state-dir={state}", "--to=gs://b/x"])
    assert "'gs://b/x' is a URL; give a path on this machine" in url.output
    (tmp_path / "file").touch()
    assert f"{tmp_path / 'file'}: " in take(state, tmp_path / "file" / "x").output
    result = take(state, tmp_path / ("n" * 300))
    assert result.exit_code == 1
    assert "File name too long" in result.output


def test_without_an_epoch_the_copy_begins_with_what_was_published(
    tmp_path: Path, state: Path
) -> None:
    with opened(state, application="Echo") as store:
        (state / "checkpoint").mkdir()
        (state / "checkpoint" / "metadata").write_text(RUN)
        process(store, 1)
        assert "position 1, no epoch" in take(state, tmp_path / "copy").output
    check(tmp_path / "copy")
    assert not is_new(tmp_path / "copy" / "checkpoint")


def test_epochs_that_end_meanwhile_are_left_out(
    tmp_path: Path, state: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(PinnedLog):
        def extend(self) -> bool:
            """Let an epoch end as soon as everything is open."""
            monkeypatch.setattr(Moment, "of", classmethod(compared))
            return super().extend()

    of = Moment.of

    def compared(_cls: type[Moment], checkpoint: Path) -> Moment:
        found = of(checkpoint)
        process(store, 4)
        commit(state, 1, 4, store.journal.opening)
        forget(store, 4)
        process(store, 5)
        shutil.rmtree(checkpoint)
        return found

    monkeypatch.setattr(state_copy, "PinnedLog", Late)
    assert "position 4, epoch 0" in take(state, tmp_path / "copy").output
    check(tmp_path / "copy")
    assert progress_of(tmp_path / "copy" / "checkpoint").chunk == 2
    assert read_held(tmp_path / "copy").forgotten == {RUN: 2}
    mark = read_mark(tmp_path / "copy" / "log")
    assert mark is not None
    assert mark.end == read_held(tmp_path / "copy").end == 5


def test_an_epoch_that_ends_while_files_are_opened_lets_them_be_opened_anew(
    tmp_path: Path, state: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = iter([1])

    class Early(PinnedLog):
        def extend(self) -> bool:
            """Let an epoch end before the rest of the log is pinned."""
            for epoch in epochs:
                commit(state, epoch, 3, store.journal.opening)
                forget(store, 3)
            return super().extend()

    monkeypatch.setattr(state_copy, "PinnedLog", Early)
    assert "position 3, epoch 1" in take(state, tmp_path / "copy").output
    check(tmp_path / "copy")


def test_dead_letters_are_in_the_copy_once(tmp_path: Path, state: Path, store: Store) -> None:
    failed = FailedMessage("in", "decoder", "f.py:1", "ValueError: no", "'m'")
    with store.outbox.letters.transaction() as letters:
        letters.keep_damaged(Letter(0, "lines", failed, data=b"m"))
    assert take(state, tmp_path / "copy").exit_code == 0
    with (
        opened(tmp_path / "copy", sinks=["out"]) as copied,
        copied.outbox.letters.transaction() as letters,
    ):
        assert len(letters.listed(Choice(None), 9)) == 1


def test_what_cannot_be_copied_is_refused_by_name(tmp_path: Path, state: Path) -> None:
    assert take(tmp_path, tmp_path / "copy").exit_code == 2
    assert "contains no log" in take(state, tmp_path / "copy").output
    with opened(state, application="Echo"):
        pass
    assert f"{state} exists already" in take(state, state).output
    assert "name a directory elsewhere" in take(state, state / "copy").output
    assert left(tmp_path) == {"state"}


@pytest.mark.parametrize("file", ["log", "letters.db", "application.json", "checkpoint/commits/0"])
def test_a_damaged_original_is_named_and_not_copied(tmp_path: Path, state: Path, file: str) -> None:
    with opened(state, application="Echo") as store:
        for chunk in range(1, 4):
            process(store, chunk)
        commit(state, 0, 2, store.journal.opening)
    damaged = segments(state)[0] if file == "log" else state / file
    content = damaged.read_bytes()
    place = min(100, len(content) // 2)
    damaged.write_bytes(content[:place] + b"\xff" * 40 + content[place + 40 :])
    result = take(state, tmp_path / "copy")
    assert result.exit_code != 0
    assert f"{damaged} is damaged" in result.output
    assert ".partial" not in result.output
    assert left(tmp_path) == {"state"}


def test_a_log_of_another_time_than_the_checkpoint_is_not_copied(
    tmp_path: Path, state: Path, store: Store
) -> None:
    forget(store, 3)
    result = take(state, tmp_path / "copy")
    assert result.exit_code == 1
    assert f"the checkpoint {state / 'checkpoint'} is older than the log" in result.output
    assert left(tmp_path) == {"state"}


def test_a_full_disk_is_reported_and_leaves_nothing(
    tmp_path: Path, state: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(state_copy, "free_bytes", lambda _: 1000)
        result = take(state, tmp_path / "copy")
        assert f"no snapshot of {state} was made: it takes" in result.output
    with monkeypatch.context() as patch:

        def no_room(*_arguments: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr(os, "sendfile", no_room)
        result = take(state, tmp_path / "copy")
        assert result.exit_code == 1
        assert f"no snapshot of {state} was made: the disk of {tmp_path} is full" in result.output
    assert left(tmp_path) == {"state"}
    assert take(state, tmp_path / "copy").exit_code == 0


def test_a_command_that_is_killed_leaves_no_copy_and_the_next_one_succeeds(
    tmp_path: Path, state: Path, store: Store
) -> None:
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from wallaroo.run.state.snapshots.snapshot import take_snapshot\n"
        "os.sendfile = lambda *_: os.kill(os.getpid(), 9)\n"
        "take_snapshot(Path(sys.argv[1]), Path(sys.argv[2]))\n"
    )
    command = [sys.executable, "-c", code, str(state), str(tmp_path / "copy")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert left(tmp_path) == {"state", ".copy.partial"}
    with pytest.raises(UsageError, match="is a copy that was not finished: take the snapshot"):
        StateDirectory(tmp_path / ".copy.partial", "Echo", 2)
    with pytest.raises(UsageError, match="is a copy that was not finished: take the snapshot"):
        read_fixed(tmp_path / ".copy.partial")
    assert take(state, tmp_path / "copy").exit_code == 0
    assert left(tmp_path) == {"state", "copy"}
    check(tmp_path / "copy")


def test_two_snapshots_do_not_share_a_target(tmp_path: Path, state: Path, store: Store) -> None:
    partial = tmp_path / ".copy.partial"
    partial.mkdir()
    other = hold(partial / "snapshot.lock", "")
    result = take(state, tmp_path / "copy")
    os.close(other)
    assert result.exit_code == 1
    assert "another snapshot has the same target" in result.output
