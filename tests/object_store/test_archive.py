"""An archive on an object store: none of its files is lost, doubled or half there."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner

from tests.gateway.log.test_archive import Written
from tests.gateway.test_archiver import until
from tests.helpers import WORD_COUNT, wait_until
from tests.history.harness import Recorded
from tests.object_store.proxy import Fault, Proxy
from tests.object_store.server import Server
from wallaroo.cli.main import main
from wallaroo.cli.options import application_without_addresses
from wallaroo.errors import DamagedFile, RuntimeFailure
from wallaroo.gateway import store as store_module
from wallaroo.gateway import writer
from wallaroo.gateway.archiver import Archiver
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.explaining import Explainer, Explaining
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.log import archiving
from wallaroo.gateway.log.archiving import archive_oldest
from wallaroo.gateway.log.kept import MOST_WAITING, Keep
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.scan import scan
from wallaroo.gateway.store import StoreLimits
from wallaroo.loading.loader import ApplicationRef
from wallaroo.system import object_store
from wallaroo.system.object_store import ObjectPath

SOURCE = "Split and Count"
LONG = 4 * 1024**2
"""Bytes of a record, of which several make a file that is sent in parts."""


class Stored(Written):
    """A log whose segments go to an archive on an object store."""

    archive: ObjectPath

    def __init__(self, directory: Path, folder: ObjectPath, **more: Keep) -> None:
        super().__init__(directory, **more)
        self.archive = folder

    def names(self) -> list[str]:
        return [file.name for file in self.archive.glob("*.zst")]

    def parts(self) -> list[str]:
        return [file.name for file in (self.archive / ".parts").iterdir()]

    def append_long(self) -> None:
        """Append segments that are too long for a single request, even when compressed."""
        for _ in range(2):
            self.log.append(7, b"".join(os.urandom(LONG) for _ in range(6)))
            self.log.write()
        self.log.append(7, b"end")
        self.log.write()
        self.log.sync()
        self.log.release(self.log.end)


@pytest.fixture
def written(tmp_path: Path, folder: ObjectPath) -> Iterator[Stored]:
    made = Stored(tmp_path, folder / tmp_path.name)
    yield made
    made.log.close()


def failing(method: str, part: str, fault: str) -> Fault:
    """Let requests of a *method* fail whose paths have a *part*."""
    return lambda one, path: fault if (one, part in path) == (method, True) else None


def copying(fault: str) -> Fault:
    """Let the requests fail that name what is whole."""
    return lambda method, path: fault if method == "PUT" and path.endswith(".zst") else None


def test_what_goes_is_in_the_store_and_read_with_the_log(written: Stored, tmp_path: Path) -> None:
    for _ in range(3):
        written.append(5)
        assert written.archive_all() > 0
        assert written.waiting() == []
        assert written.parts() == []
        assert written.numbers() == list(range(1, written.log.next))
    for file in written.archive.glob("*.zst"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    written.archive = tmp_path  # type: ignore[assignment]
    assert written.numbers()[0] == 1  # in a directory, they are the same


@pytest.mark.parametrize(
    "fault",
    [
        failing("PUT", "partNumber=2", "ExpiredToken"),
        failing("POST", "uploadId=", "ExpiredToken"),
        copying("ExpiredToken"),
        failing("DELETE", ".parts", "ExpiredToken"),
    ],
    ids=["a part", "the end", "the name", "the rest"],
)
def test_a_file_has_its_name_only_once_all_of_it_is_in_the_store(
    written: Stored, network: Proxy, fault: Fault
) -> None:
    written.append_long()
    waiting = written.waiting()
    network.fail(fault)
    with pytest.raises(RuntimeFailure, match="the object store refuses s3a://"):
        archive_oldest(written.directory, written.archive)
    assert network.faults.total() > 0
    network.heal()
    assert written.waiting() == waiting
    assert written.numbers()[0] == 1
    named = written.names()
    assert written.archive_all() == len(waiting)
    assert set(named) <= set(written.names())
    assert len(written.names()) == len(waiting)
    assert written.parts() == []
    assert written.numbers()[0] == 1


@pytest.mark.parametrize("fault", ["InternalError", "SlowDown", "lost"])
def test_requests_that_fail_are_repeated(written: Stored, network: Proxy, fault: str) -> None:
    written.append_long()
    seen = set[tuple[str, str]]()

    def once(method: str, path: str) -> str | None:
        request = method, path.partition("uploadId")[0]
        if request in seen:
            return None
        seen.add(request)
        return fault

    network.fail(once)
    assert written.archive_all() > 0
    network.heal()
    assert written.numbers()[0] == 1
    assert written.parts() == []


def test_a_file_that_the_store_cuts_short_stays_in_the_log(
    written: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.append(6)
    first, *_ = written.waiting()
    with monkeypatch.context() as patched:
        patched.setattr(ObjectPath, "stat", lambda _: os.stat_result([0] * 10))
        with pytest.raises(RuntimeFailure, match=r"has 0 bytes after [\d,]+ were written"):
            archive_oldest(written.directory, written.archive)
    assert first in written.waiting()


def test_while_the_store_is_away_as_many_wait_as_may(written: Stored, network: Proxy) -> None:
    written.append(5)
    network.fail(lambda *_: "ExpiredToken")
    with pytest.raises(RuntimeFailure, match="check the credentials"):
        archive_oldest(written.directory, written.archive)
    written.append(60)
    assert len(written.waiting()) == MOST_WAITING
    assert written.log.kept.lost > 10
    network.heal()
    assert written.archive_all() == MOST_WAITING
    with structlog.testing.capture_logs() as told:
        assert written.numbers()[0] > 1  # behind the gap
    assert told == []  # nothing older was ever there


def test_copies_of_a_log_that_were_continued_can_have_one_archive(
    tmp_path: Path, folder: ObjectPath
) -> None:
    before = Stored(tmp_path, folder)
    before.append(4)
    before.archive_all()
    before.log.close()
    shutil.copytree(before.directory, tmp_path / "copy" / "log")
    written, copy = Stored(tmp_path, folder), Stored(tmp_path / "copy", folder)
    for one, more in ((copy, b"-"), (written, b" "), (copy, b"-"), (written, b" ")):
        one.append(4, more)
        one.archive_all()
    for one in (written, copy):
        assert one.numbers()[0] == 1
        assert (b"-" in one.payloads()[-1]) == (one is copy)
    assert not any(b"-" in payload for payload in written.payloads())
    written.log.close()
    copy.log.close()


def test_two_that_archive_the_same_file_at_once_leave_one_that_is_whole(
    tmp_path: Path, folder: ObjectPath, network: Proxy
) -> None:
    made = Stored(tmp_path, folder)
    made.append_long()
    made.log.close()
    shutil.copytree(made.directory, tmp_path / "copy")
    network.fail(copying("late"))
    failed: list[Exception] = []

    def archive_all(log: Path) -> None:
        try:
            while archive_oldest(log, folder):
                pass
        except (RuntimeFailure, OSError) as error:
            failed.append(error)

    logs = [made.directory, tmp_path / "copy"]
    threads = [threading.Thread(target=archive_all, args=(log,)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    network.heal()
    for log in logs:
        archive_all(log)
        assert next(record.number for record in scan(log, kept=True, archive=folder)) == 1
    assert len(failed) < 2


def test_damage_is_told_and_an_outage_is_no_damage(
    written: Stored, server: Server, network: Proxy
) -> None:
    written.append(10)
    written.archive_all()
    first, *_ = sorted(written.archive.glob("*.zst"))
    network.fail(failing("GET", first.name, "ExpiredToken"))
    with pytest.raises(RuntimeFailure, match="the object store refuses") as raised:
        written.numbers()
    assert not isinstance(raised.value, DamagedFile)
    network.heal()
    content = first.read_bytes()
    server.file(first.key.partition("/")[2]).write_bytes(b"other" + content[5:])
    with pytest.raises(DamagedFile, match=f"{first} is damaged: .* does not match its checksum"):
        written.numbers()
    first.write_bytes(content[:-20])
    with pytest.raises(DamagedFile, match=f"{first} is damaged: it cannot be decompressed"):
        written.numbers()
    first.unlink()
    with structlog.testing.capture_logs() as told:
        assert written.numbers()[0] > 1
    assert told == []  # the oldest one may go


def test_a_folder_without_files_of_the_log_is_told(written: Stored) -> None:
    written.append(10)
    written.archive_all()
    written.archive = ObjectPath.at(f"{written.archive}-mistyped")
    with structlog.testing.capture_logs() as told:
        first, *_ = written.numbers()
    (incomplete,) = told
    assert incomplete["event"] == "archive incomplete"
    assert incomplete["missing"] == f"all before record {first}: it has no file of this log"


def test_a_bucket_that_is_not_there_is_told(written: Stored) -> None:
    written.append(10)
    written.archive = ObjectPath.at("s3a://mistyped/archive")
    with pytest.raises(RuntimeFailure, match="s3a://mistyped/archive: there is no such bucket"):
        written.numbers()


def test_no_file_is_read_that_is_older_than_what_is_needed(written: Stored, network: Proxy) -> None:
    written.append(40)
    written.archive_all()
    files = written.names()
    number = int(files[-3].split("-")[1], 16)
    gets: list[str] = []
    network.fail(lambda method, path: gets.append(path) if method == "GET" else None)
    found = scan(
        written.directory,
        kept=True,
        archive=written.archive,
        reaches=lambda record: record.number <= number,
    )
    assert next(found).number == number
    read = {name for name in files if any(name in path for path in gets)}
    assert set(files[-3:]) <= read <= set(files[-5:])
    assert sum("list-type" in path for path in gets) == 1


def archiver(written: Stored) -> Archiver:
    return Archiver(written.directory, written.archive)


def process_of(running: Archiver) -> int:
    assert running._process is not None
    return running._process.pid


def test_the_process_tells_that_the_store_is_silent_and_ends_at_once(
    written: Stored, network: Proxy
) -> None:
    written.append(6)
    waiting = written.waiting()
    network.fail(lambda *_: "silent")

    async def run() -> None:
        running = archiver(written)
        running.start()
        process = running._process
        assert process is not None
        await until(lambda: bool(told))
        running.stop()
        assert process.returncode == -signal.SIGTERM

    with structlog.testing.capture_logs() as told:
        asyncio.run(run())
    (waits,) = told
    assert (waits["event"], waits["archive"]) == ("archive waits", str(written.archive))
    assert waits["reason"] == "waiting for the object store"
    assert written.waiting() == waiting


def test_the_process_tells_what_is_wrong_and_that_it_goes_on(
    written: Stored, network: Proxy
) -> None:
    written.append(6)
    network.fail(lambda *_: "ExpiredToken")

    async def run() -> None:
        running = archiver(written)
        running.start()
        await until(lambda: bool(told))
        network.heal()
        await until(lambda: not written.waiting() and told[-1]["event"] == "archive resumed")
        running.stop()

    with structlog.testing.capture_logs() as told:
        asyncio.run(run())
    assert any("check the credentials" in one.get("reason", "") for one in told)
    assert told[-1]["event"] == "archive resumed"
    assert "not-a-secret-at-all" not in str(told)
    assert written.numbers()[0] == 1


@pytest.mark.parametrize(
    "at", [failing("PUT", "partNumber=2", "silent"), copying("silent")], ids=["a part", "the name"]
)
def test_a_kill_in_the_middle_of_an_upload_loses_and_doubles_nothing(
    written: Stored, network: Proxy, at: Fault
) -> None:
    written.append_long()
    waiting = written.waiting()
    network.fail(at)

    async def run(is_over: Callable[[], bool], *, kills: bool) -> None:
        running = archiver(written)
        running.start()
        await until(is_over)
        if kills:
            os.kill(process_of(running), signal.SIGKILL)
        running.stop()

    asyncio.run(run(lambda: network.faults["silent"] > 0, kills=True))
    network.fail(failing("PUT", "", "ExpiredToken"))  # what was under way has no effect later
    assert written.waiting() == waiting
    assert written.numbers()[0] == 1
    network.heal()
    asyncio.run(run(lambda: not written.waiting(), kills=False))
    assert len(written.names()) == len(waiting)
    assert written.parts() == []
    assert written.numbers()[0] == 1


def test_a_wait_is_reported_once_and_not_after_its_reason(
    written: Stored, network: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[str] = []
    monkeypatch.setattr("builtins.print", lambda line, **_more: printed.append(line))
    monkeypatch.setattr(object_store, "_TELL_S", 0.001)
    report = archiving.Report()
    structlog.configure([report.note_event])
    try:
        written.append(6)
        network.fail(failing("PUT", ".zst-", "late"))
        archive_oldest(written.directory, written.archive)
        wait_until(lambda: len(printed) == 1, "the wait")
        report.note("refused")
        archive_oldest(written.directory, written.archive)
        report.note(None)
    finally:
        structlog.reset_defaults()
    assert printed == [
        '{"problem": "waiting for the object store"}',
        '{"problem": "refused"}',
        '{"problem": null}',
    ]


@pytest.mark.parametrize(
    "fault",
    [
        failing("PUT", ".zst-", "ExpiredToken"),
        copying("ExpiredToken"),
        failing("GET", "list-type", "ExpiredToken"),
    ],
    ids=["a part", "the name", "a list"],
)
def test_a_store_that_goes_on_refusing_is_reported_once(
    written: Stored, network: Proxy, fault: Fault, capsys: pytest.CaptureFixture[str]
) -> None:
    written.append(6)
    network.fail(fault)
    report = archiving.Report()
    for _ in range(2):
        with pytest.raises(RuntimeFailure) as raised:
            archive_oldest(written.directory, written.archive)
        report.note(str(raised.value))
    (told,) = capsys.readouterr().out.splitlines()
    assert str(written.archive) in told
    assert ".zst-" not in told


def test_commands_read_the_archive_of_the_store(
    tmp_path: Path, folder: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "Log", partial(Log, segment_bytes=2_000))
    monkeypatch.setattr(store_module, "_RELEASE_EVERY_S", 0.0)
    state = tmp_path / "state"
    state.mkdir()
    limits = StoreLimits(JournalLimits(archive=folder))
    recorded = Recorded(state, application_without_addresses(str(WORD_COUNT), ()), limits=limits)
    for _ in range(9):
        recorded.run([(SOURCE, b"zebra")])
        recorded.checkpoint()
    wait_until(lambda: len([*(state / LOG).glob("log-*")]) == 1, "the release of segments")
    recorded.run([(SOURCE, b"zebra")])
    recorded.close()
    while archive_oldest(state / LOG, folder):
        pass
    app, options = str(WORD_COUNT), ["--state-dir", str(state), "--archive", str(folder)]
    for command, shown in [
        (["explain", app, "z", "--at", "0"], "word totals['z'] (new) .word_totals['zebra'] + 1"),
        (["explain", app, "--output", f"{SOURCE}:1"], "offset 0  "),
        (["replay", app, str(tmp_path / "again")], "10 messages run again"),
        (["rehearse", app], f"sink '{SOURCE}': 10 outputs the same"),
    ]:
        done = CliRunner().invoke(main, [*command, *options])
        assert shown in done.output, (command, done.output)
    asked = ["log", str(state), "--kind", "published", "--archive", str(folder)]
    assert len(CliRunner().invoke(main, asked).stdout.splitlines()) == 10
    mistyped = CliRunner().invoke(main, [*asked[:-1], "s3a://mistyped/archive"])
    assert mistyped.exit_code == 1
    assert "s3a://mistyped/archive: there is no such bucket" in mistyped.output
    of_dashboard = Explaining.of(ApplicationRef(app), state, folder, is_here=True)
    assert f" --archive {folder}" in of_dashboard.command(["z"])
    printed = Explainer(lambda: of_dashboard).run(["z", "--at", "0"])
    assert "word totals['z'] (new)" in printed["text"]
