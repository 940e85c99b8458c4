"""Snapshots on an object store, without Spark: stored, kept, restored, and cut short anywhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.gateway.harness import opened
from tests.helpers import ROOT
from tests.object_store.proxy import Proxy
from tests.object_store.test_archive import failing
from tests.run.state.snapshots.harness import RUN, check, commit, forget, new_state, process
from wallaroo.cli.main import main
from wallaroo.errors import DamagedFile, RuntimeFailure, UsageError
from wallaroo.gateway.log.scan import PinnedLog
from wallaroo.gateway.store import Store
from wallaroo.run.state.directory import StateDirectory, read_fixed
from wallaroo.run.state.snapshots import state_copy
from wallaroo.run.state.snapshots.contents import read_taken
from wallaroo.run.state.snapshots.restoration import restore
from wallaroo.run.state.snapshots.snapshot import take_snapshot
from wallaroo.system.object_store import ObjectPath


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory that nothing has been in yet."""
    return new_state(tmp_path)


@pytest.fixture
def store(state: Path) -> Iterator[Store]:
    """The store of its gateway: three messages, two of them in the checkpoint."""
    with opened(state, application="Echo", sinks=["out"]) as store:
        for chunk in (1, 2, 3):
            process(store, chunk)
        commit(state, 0, 2, store.journal.opening)
        forget(store, 2)
        yield store


@pytest.fixture
def copy(state: Path, store: Store, folder: ObjectPath) -> ObjectPath:
    """A snapshot of it on the object store."""
    take_snapshot(state, folder / "copy")
    return folder / "copy"


@pytest.fixture
def folder(folder: ObjectPath, tmp_path: Path) -> ObjectPath:
    """A folder for one test with its parameters."""
    return folder / tmp_path.name


def called(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


def content(directory: Path) -> dict[str, bytes]:
    files = (file for file in directory.rglob("*") if file.is_file())
    return {str(file.relative_to(directory)): file.read_bytes() for file in files}


def killed_at(call: str, number: int, do: str, *arguments: object) -> None:
    """Let another process *do* something, in which a kill takes the place of a call's number."""
    code = (
        "import itertools, os, sys\n"
        "from pathlib import Path\n"
        "from wallaroo.run.state.snapshots import restoration, snapshot, stored_snapshot\n"
        "from wallaroo.system.object_store import ObjectPath\n"
        f"calls, original = itertools.count(), {call}\n"
        "def killing(*arguments, **options):\n"
        f"    if next(calls) == {number}:\n"
        "        os.kill(os.getpid(), 9)\n"
        "    return original(*arguments, **options)\n"
        f"{call} = killing\n"
        "place = lambda text: ObjectPath.at(text) if text.startswith('s3a:') else Path(text)\n"
        f"{do}(*map(place, sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", code, *map(str, arguments)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL


def test_a_snapshot_is_stored_and_restored_as_a_directory_has_it(
    tmp_path: Path, state: Path, store: Store, folder: ObjectPath
) -> None:
    result = called("snapshot", "--state-dir", state, "--to", folder / "copy")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{folder}/copy: position 3, epoch 0, 0 messages waiting, 3 ")
    result = called("restore", folder / "copy", "--state-dir", tmp_path / "restored")
    assert result.stdout.startswith(f"{tmp_path}/restored: position 3, epoch 0, 0 messages waiting")
    take_snapshot(state, tmp_path / "directory")
    (tmp_path / "directory" / "snapshot.json").unlink()
    assert content(tmp_path / "restored") == content(tmp_path / "directory")
    check(tmp_path / "restored")
    with opened(tmp_path / "restored", application="Echo", sinks=["out"]) as restored:
        assert restored.journal.end == store.journal.end == 3
        assert [*restored.outbox.changes(RUN, 2)] == [b"change"]
        assert restored.outbox.queues.undelivered(0) == 3


def test_state_and_log_are_restored_to_their_own_places(
    tmp_path: Path, copy: ObjectPath, folder: ObjectPath
) -> None:
    (tmp_path / "log" / "lost+found").mkdir(parents=True)  # a volume
    result = called(
        *("restore", copy, "--state-dir", folder / "state"),
        *("--log-dir", tmp_path / "log"),
    )
    assert result.exit_code == 0, result.output
    found = {str(file)[len(str(folder)) + 1 :] for file, _ in (folder / "state").files()}
    assert "state/application.json" in found
    assert not any("log" in name or "letters" in name for name in found)
    assert {file.name for file in (tmp_path / "log").iterdir()} >= {"log", "letters.db"}
    assert not (tmp_path / "log" / "checkpoint").exists()
    again = called("snapshot", "--state-dir", folder / "state", "--to", tmp_path / "again")
    assert "name the application, or the directory with its log with --log-dir" in again.output
    again = called(
        *("snapshot", "--state-dir", folder / "state", "--to", tmp_path / "again"),
        *("--log-dir", tmp_path / "log"),
    )
    assert "position 3, epoch 0" in again.stdout, again.output
    check(tmp_path / "again")


@pytest.mark.parametrize("number", [0, 1, 5])
def test_a_command_that_is_killed_leaves_no_snapshot_and_the_next_one_succeeds(
    tmp_path: Path, state: Path, store: Store, folder: ObjectPath, number: int
) -> None:
    target = folder / "copy"
    killed_at("ObjectPath.write_bytes", number, "snapshot.take_snapshot", state, target)
    with pytest.raises(UsageError, match=r"is not a snapshot, or not a complete one"):
        restore(target, tmp_path / "restored")
    take_snapshot(state, target)
    restore(target, tmp_path / "restored")
    check(tmp_path / "restored")


@pytest.mark.parametrize(
    ("call", "number"),
    [("restoration.fetch_file", 0), ("restoration.fetch_file", 5), ("Path.rename", 1)],
)
def test_a_start_refuses_what_was_not_restored_completely(
    tmp_path: Path, copy: ObjectPath, call: str, number: int
) -> None:
    target = tmp_path / "restored"
    killed_at(call, number, "restoration.restore", copy, target)
    with pytest.raises(UsageError, match="is a copy that was not finished"):
        StateDirectory(target, "Echo", 2)
    restore(copy, target)
    check(target)
    StateDirectory(target, "Echo", 2).close()


def test_a_start_on_the_store_refuses_what_was_not_restored_completely(
    tmp_path: Path, copy: ObjectPath, folder: ObjectPath
) -> None:
    places = folder / "state", tmp_path / "log"
    killed_at("restoration.store_file", 2, "restoration.restore", copy, *places)
    with pytest.raises(UsageError, match="is a copy that was not finished"):
        StateDirectory(folder / "state", "Echo", 2, directory=tmp_path / "refused")
    restore(copy, *places)
    StateDirectory(folder / "state", "Echo", 2, directory=tmp_path / "run").close()


def test_a_snapshot_is_not_taken_for_state_on_a_store(tmp_path: Path, copy: ObjectPath) -> None:
    told = "is a snapshot: `wallaroo restore` brings it"
    with pytest.raises(UsageError, match=told):
        StateDirectory(copy, "Echo", 2, directory=tmp_path / "run")
    result = called("state", "export", ROOT / "apps" / "word_count", "--state-dir", copy)
    assert (result.exit_code, told in result.output) == (2, True)


def test_nothing_of_others_is_replaced(
    tmp_path: Path, state: Path, store: Store, copy: ObjectPath, folder: ObjectPath
) -> None:
    for target in (copy, folder):
        with pytest.raises(UsageError, match="exists already"):
            take_snapshot(state, target)
    for place in (folder, state):
        with pytest.raises(UsageError, match="name a place with nothing in it"):
            restore(copy, place)
    with pytest.raises(UsageError, match="is not empty: name a place with nothing in it"):
        restore(copy, tmp_path / "new", state)
    restore(copy, tmp_path / "restored")


def is_finished(place: Path) -> bool:
    return StateDirectory.has_state(place) and not (place / "snapshot.lock").exists()


def test_what_appears_at_the_target_meanwhile_stays(
    state: Path, store: Store, folder: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = folder / "copy" / "theirs"

    class Appearing(PinnedLog):
        def extend(self) -> bool:
            theirs.write_bytes(b"of others")
            return super().extend()

    monkeypatch.setattr(state_copy, "PinnedLog", Appearing)
    with pytest.raises(UsageError, match="exists already"):
        take_snapshot(state, folder / "copy")
    assert [file for file, _ in folder.files()] == [theirs]


def test_a_second_kill_while_the_rest_of_the_first_is_removed_changes_nothing(
    tmp_path: Path, state: Path, store: Store, copy: ObjectPath, folder: ObjectPath
) -> None:
    target = folder / "second"
    killed_at("ObjectPath.write_bytes", 6, "snapshot.take_snapshot", state, target)
    killed_at("ObjectPath.unlink", 2, "snapshot.take_snapshot", state, target)
    take_snapshot(state, target)
    places = folder / "restored", tmp_path / "log"
    killed_at("restoration.store_file", 4, "restoration.restore", target, *places)
    killed_at("ObjectPath.unlink", 1, "restoration.restore", target, *places)
    restore(target, *places)
    StateDirectory(folder / "restored", "Echo", 2, directory=tmp_path / "run").close()


def test_of_two_that_restore_to_one_place_one_fails(
    tmp_path: Path, copy: ObjectPath, folder: ObjectPath, network: Proxy
) -> None:
    place, began = folder / "restored", iter([True])

    def other_begins(method: str, path: str) -> str | None:
        if method == "PUT" and path.endswith("/metadata") and next(began, False):
            (place / "snapshot.lock").write_bytes(os.urandom(16))
        return None

    network.fail(other_begins)
    with pytest.raises(RuntimeFailure, match="another command writes to"):
        restore(copy, place, tmp_path / "log")
    with pytest.raises(UsageError, match="is a copy that was not finished"):
        read_fixed(place)


def truncate(file: ObjectPath) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def flip(file: ObjectPath) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


@pytest.mark.parametrize("damage", [truncate, flip, ObjectPath.unlink])
@pytest.mark.parametrize("name", ["checkpoint/offsets/0", "letters.db", "application.json"])
def test_an_object_that_is_not_as_it_was_stored_is_named(
    tmp_path: Path, copy: ObjectPath, damage: Callable[[ObjectPath], None], name: str
) -> None:
    damage(copy / name)
    with pytest.raises((DamagedFile, UsageError), match=name):
        restore(copy, tmp_path / "restored")
    assert not is_finished(tmp_path / "restored")


@pytest.mark.parametrize("name", ["../elsewhere", "/elsewhere"])
def test_a_list_with_files_elsewhere_is_refused(
    tmp_path: Path, copy: ObjectPath, name: str
) -> None:
    taken = json.loads((copy / "snapshot.json").read_text())
    taken["files"][name] = taken["files"]["application.json"]
    (copy / "snapshot.json").write_text(json.dumps(taken))
    with pytest.raises(UsageError, match="is not a complete snapshot"):
        restore(copy, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_the_oldest_are_removed_and_nothing_else(
    state: Path, store: Store, folder: ObjectPath
) -> None:
    (folder / "other").write_bytes(b"of others")
    (folder / "unfinished" / "snapshot.lock").write_bytes(b"")
    for name in ("mine", "one", "two", "three"):
        result = called("snapshot", "--state-dir", state, "--to", folder / name, "--keep", 2)
        assert result.exit_code == 0, result.output
        (folder / "mine" / "log" / "note").write_bytes(b"of the user")
    assert f"{folder}/one: removed" in result.stdout
    found = {file.parts[len(folder.parts)] for file, _ in folder.files()}
    assert found == {"other", "unfinished", "mine", "two", "three"}
    for name in ("two", "three"):
        assert read_taken(folder / name)["position"] == 3


@pytest.mark.parametrize("fault", ["InternalError", "SlowDown", "lost"])
def test_requests_that_fail_are_repeated(
    tmp_path: Path, state: Path, store: Store, folder: ObjectPath, network: Proxy, fault: str
) -> None:
    sometimes = iter(range(10**6))

    def fails(method: str, _path: str) -> str | None:
        return fault if method in ("PUT", "GET") and next(sometimes) % 3 == 0 else None

    network.fail(fails)
    take_snapshot(state, folder / "copy")
    restore(folder / "copy", tmp_path / "restored")
    assert network.faults[fault] > 3
    check(tmp_path / "restored")


def test_a_store_that_refuses_is_told(
    tmp_path: Path, state: Path, store: Store, folder: ObjectPath, network: Proxy
) -> None:
    network.fail(failing("PUT", "/copy/", "ExpiredToken"))
    result = called("snapshot", "--state-dir", state, "--to", folder / "copy")
    assert result.exit_code == 1
    assert "the object store refuses" in result.output
    assert [*tmp_path.iterdir()] == [state]


def test_two_that_store_at_one_place_do_not_make_one_snapshot(
    state: Path, store: Store, folder: ObjectPath, network: Proxy
) -> None:
    target, began = folder / "copy", iter([True])

    def other_begins(method: str, path: str) -> str | None:
        if method == "PUT" and path.endswith("/application.json") and next(began, False):
            (target / "snapshot.lock").write_bytes(os.urandom(16))
        return None

    network.fail(other_begins)
    result = called("snapshot", "--state-dir", state, "--to", target)
    assert f"another command writes to {target}, too" in result.output
    assert not (target / "snapshot.json").exists()
    assert json.loads((target / "application.json").read_text())["application"] == "Echo"


@pytest.mark.parametrize("name", ["checkpoint/commits/0", "checkpoint/offsets/0"])
def test_a_commit_that_is_gone_before_it_is_copied_is_replaced_by_a_later_one(
    tmp_path: Path, copy: ObjectPath, folder: ObjectPath, network: Proxy, name: str
) -> None:
    restore(copy, folder / "state", tmp_path / "log")
    left, checkpoint = iter([True]), folder / "state" / "checkpoint"

    def next_epochs_end(method: str, path: str) -> str | None:
        if (
            method == "GET"
            and path.split("?", maxsplit=1)[0].endswith(f"state/{name}")
            and next(left, False)
        ):
            place = (checkpoint / "offsets" / "0").read_text()
            for epoch in ("1", "2"):
                (checkpoint / "offsets" / epoch).write_text(place)
                (checkpoint / "commits" / epoch).write_text("v1\n{}")
            for log in ("offsets", "commits"):
                (checkpoint / log / "0").unlink()
        return None

    network.fail(next_epochs_end)
    made = take_snapshot(folder / "state", tmp_path / "again", tmp_path / "log")
    assert not next(left, False)
    assert made.epoch == 2
    check(tmp_path / "again")
