"""`wallaroo kafka positions` as far as it needs no broker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.gateway.harness import opened
from wallaroo.cli.main import main
from wallaroo.system.lockfile import hold

APP = """
import wallaroo

def application_setup(args):
    def topic(name):
        read = wallaroo.KafkaSourceConfig(name, "127.0.0.1:1", bytes.decode)
        return wallaroo.source(name, read)
    lines = wallaroo.source("lines", wallaroo.FileSourceConfig("in", bytes.decode, "lines"))
    merged = lines{merged}
    return wallaroo.build_application("Shop", merged.to_sink(wallaroo.FileSinkConfig("out", str)))
"""


def told(
    tmp_path: Path, merged: str, *arguments: str, owner: str = "Shop", exit_code: int = 2
) -> str:
    """What is refused, of an application in *tmp_path*."""
    (tmp_path / "application.py").write_text(APP.format(merged=merged))
    state = tmp_path / "state"
    state.mkdir(exist_ok=True)
    with opened(state, application=owner, sources=None, sinks=None):
        pass
    command = ["kafka", "positions", str(tmp_path), "--state-dir", str(state), *arguments]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == exit_code
    return " ".join(result.output.split())


TOPICS = '.merge(topic("a")).merge(topic("b"))'


def test_an_application_without_topics_is_refused(tmp_path: Path) -> None:
    assert "'Shop' has no source that reads a topic; it has: none" in told(tmp_path, "")


def test_one_of_several_sources_has_to_be_named(tmp_path: Path) -> None:
    assert "name one with --source: 'a', 'b'" in told(tmp_path, TOPICS, "--set", "latest")


@pytest.mark.parametrize("file", ["lock", "gateway.lock"])
def test_positions_of_a_running_application_are_not_moved(tmp_path: Path, file: str) -> None:
    (tmp_path / "state").mkdir()
    lock = hold(tmp_path / "state" / file, "")
    why = told(tmp_path, TOPICS, "--source", "a", "--set", "latest", exit_code=1)
    os.close(lock)
    assert why.endswith("state is in use by another process; stop the application first")


def test_the_state_directory_of_another_application_is_refused(tmp_path: Path) -> None:
    assert "state belongs to 'Bank', not to 'Shop'" in told(tmp_path, TOPICS, owner="Bank")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("newest", "'newest' is not one of earliest, latest, an offset or a time such as 20"),
        ("-1", "'-1' is not one of"),
        ("2026-11-27T09:30", "has no time zone: append Z or one such as +01:00"),
    ],
)
def test_a_position_that_is_none_is_refused(tmp_path: Path, target: str, why: str) -> None:
    assert why in told(tmp_path, TOPICS, "--source", "a", f"--set={target}")
