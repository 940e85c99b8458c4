from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner

from tests.helpers import PATIENCE_S, WORD_COUNT
from wallaroo.cli.main import main
from wallaroo.connectors.files.sink import FileSink
from wallaroo.engine.spark import kubernetes
from wallaroo.errors import UsageError
from wallaroo.gateway.internal_api.location import Endpoint
from wallaroo.gateway.startup import take
from wallaroo.run.background_run import BackgroundRun
from wallaroo.run.state.directory import StateDirectory
from wallaroo.system.private_files import as_outside, private_files, warn_if_open

TAKE = """
import sys
from pathlib import Path
from wallaroo.gateway.startup import take
from wallaroo.gateway.store import Store
take(Path(sys.argv[1]))
Store(Path(sys.argv[1]), "votes").close()
"""


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """The widest umask, of a caller that keeps nothing to itself."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_created_in_the_block_is_private_whatever_the_umask(tmp_path: Path) -> None:
    with private_files():
        (tmp_path / "inside").touch()
        command = [sys.executable, "-c", TAKE, str(tmp_path / "state")]
        subprocess.run(command, check=True)  # a child inherits it
    (tmp_path / "outside").touch()
    assert mode(tmp_path / "inside") == 0o600
    assert mode(tmp_path / "outside") == 0o666
    files = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"log-mark", "letters.db", "gateway.lock"}
    assert any(path.parent.name == "log" for path in files)
    assert {mode(path) for path in files} == {0o600}


def test_new_directories_are_private_even_without_it(tmp_path: Path) -> None:
    os.close(take(tmp_path / "gateway"))
    StateDirectory(tmp_path / "state", "votes", 1).close()
    assert mode(tmp_path / "gateway") == mode(tmp_path / "state") == 0o700


def test_the_file_of_a_sink_has_the_mode_that_the_caller_wants(tmp_path: Path) -> None:
    (tmp_path / "old.txt").touch(mode=0o640)
    os.umask(0o022)
    with private_files(), private_files():  # a gateway below a driver
        for name in ("new.txt", "old.txt"):
            sink = FileSink(tmp_path / name, lines=True)
            sink.open("1")
            sink.close()
    assert mode(tmp_path / "new.txt") == 0o644
    assert mode(tmp_path / "old.txt") == 0o640


def test_a_file_of_an_installation_can_be_shared(tmp_path: Path) -> None:
    os.umask(0o002)
    with private_files():
        (tmp_path / "archive").touch()
        as_outside(tmp_path / "archive")
    assert mode(tmp_path / "archive") == 0o664


def test_the_file_with_the_token_is_private_even_without_it(tmp_path: Path) -> None:
    Endpoint("http://127.0.0.1:7900", "token").write(tmp_path)
    assert mode(tmp_path / "endpoint.json") == 0o600


@pytest.mark.parametrize(
    ("first_call", "command"),
    [
        ("state.application_without_addresses", "state import app file"),
        ("repartition.captured_user_output", "repartition app --partitions 2"),
    ],
)
def test_commands_that_write_state_keep_it_private(
    first_call: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def look(*_: object) -> None:
        before = os.umask(0)
        os.umask(before)
        seen.append(before)
        raise UsageError(first_call)

    monkeypatch.setattr(f"wallaroo.cli.{first_call}", look)
    assert CliRunner().invoke(main, command.split()).exit_code != 0
    structlog.reset_defaults()
    assert seen == [0o077]


def test_a_state_directory_that_others_can_open_is_reported_and_not_changed(tmp_path: Path) -> None:
    state = tmp_path / "my state"
    state.mkdir(0o755)
    with structlog.testing.capture_logs() as logs:
        StateDirectory(state, "votes", 1).close()
    assert logs == [
        {
            "event": "the state directory is open to other users",
            "log_level": "warning",
            "path": str(state),
            "mode": "0755",
            "remedy": f"chmod -R go-rwx '{state}'",
        }
    ]
    assert mode(state) == 0o755
    subprocess.run(["sh", "-c", logs[0]["remedy"]], check=True)
    with structlog.testing.capture_logs() as logs:
        StateDirectory(state, "votes", 1).close()
    assert not logs


def test_the_volume_of_a_pod_is_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o2775)  # as `fsGroup` makes it
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with structlog.testing.capture_logs() as logs:
        warn_if_open(tmp_path)
        monkeypatch.setattr(Path, "is_mount", lambda _self: True)
        warn_if_open(tmp_path)
        warn_if_open(tmp_path / "none")
    assert [log["mode"] for log in logs] == ["2775"]


def test_a_gateway_of_its_own_creates_private_files_and_reports_an_open_directory(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"
    state.mkdir(0o777)
    addresses = ("--in", "127.0.0.1:0", "--out", "127.0.0.1:9", "--listen", "127.0.0.1:0")
    (tmp_path / "token").write_text("t" * 40)
    arguments = [str(WORD_COUNT), *addresses, "--token-file", str(tmp_path / "token")]
    gateway = BackgroundRun(["gateway", *arguments, "--state-dir", str(state)])
    try:
        gateway.wait_for_event("ready", PATIENCE_S)
        told = [e for e in gateway.events if e["event"].startswith("the state directory is open")]
        assert [(event["mode"], event["part"]) for event in told] == [("0777", "gateway")]
        assert gateway.stop() == 0
    finally:
        gateway.__exit__()
    files = [path for path in state.rglob("*") if path.is_file()]
    assert {"log-mark", "letters.db"} <= {path.name for path in files}
    assert {mode(path) for path in files} == {0o600}
    assert mode(state / "log") == 0o700


def test_an_executor_passes_the_umask_on(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = []
    monkeypatch.setattr(kubernetes, "executor_command", lambda _environment: ["java"])
    monkeypatch.setattr(os, "execv", lambda *_: passed.append(os.umask(0)))
    assert CliRunner().invoke(main, ["executor"]).exit_code == 0
    assert passed == [0o077]
