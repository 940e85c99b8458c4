"""A run on this machine: its state directory, and what is believed of its processes' lines."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from tests.helpers import WORD_COUNT, wait_until
from wallaroo.cli.gateway import command_line
from wallaroo.cli.options import application_without_addresses
from wallaroo.engine.settings import EngineSettings
from wallaroo.loading.loader import ApplicationRef
from wallaroo.observability import logs
from wallaroo.run.local import LocalRun
from wallaroo.run.settings import LocalSettings

SENDER = """
import sys
from wallaroo.observability import log_channel
log_channel.take_over()
sys.stdin.readline()
log_channel.write('{"part": "gateway", "level": "error", "event": "the journal is lost"}')
"""


def logged(*, is_gateway: bool) -> dict[str, Any]:
    """The event that is logged of a line that claims to be the gateway's."""
    settings = LocalSettings(engine=EngineSettings(ApplicationRef("app"), "local[1]"))
    told: list[str] = []
    logs.configure("debug", told.append, terminal=False)
    try:
        with tempfile.TemporaryDirectory() as scratch, LocalRun(settings, command_line) as run:
            run._collect_logs(Path(scratch))
            with subprocess.Popen([sys.executable, "-c", SENDER], stdin=subprocess.PIPE) as sender:
                if is_gateway:
                    run._gateway_pids.add(sender.pid)
                sender.communicate(b"now\n")
            wait_until(lambda: told)
    finally:
        logs.configure()
        structlog.reset_defaults()
    event: dict[str, Any] = json.loads(told[0])
    return event


def test_only_the_gateway_speaks_for_the_gateway() -> None:
    assert (told := logged(is_gateway=True))["part"] == "gateway"
    assert told["event"] == "the journal is lost"
    assert (told := logged(is_gateway=False))["part"] == "application"
    assert told["event"].startswith('{"part": "gateway"')


def settings_with(state: Path, workers: int, partitions: int | None) -> LocalSettings:
    engine = EngineSettings(ApplicationRef(str(WORD_COUNT)), f"local[{workers}]", workers=workers)
    return LocalSettings(engine=engine, state_dir=state, partitions=partitions)


@pytest.mark.parametrize(
    ("workers", "partitions", "warnings"),
    [
        (1, None, []),  # nobody asked for a number
        (2, 2, []),
        (2, 3, ["partitions are fixed"]),
        (3, None, ["more workers than partitions"]),
    ],
)
def test_another_number_of_partitions_is_noted_if_it_matters(
    tmp_path: Path, workers: int, partitions: int | None, warnings: list[str]
) -> None:
    application = application_without_addresses(str(WORD_COUNT), ())
    with LocalRun(settings_with(tmp_path, 2, None), command_line) as first:
        first._open_state(application)
    settings = settings_with(tmp_path, workers, partitions)
    with capture_logs() as noted, LocalRun(settings, command_line) as second:
        second._open_state(application)
    assert [one["event"] for one in noted if "partitions" in one["event"]] == warnings
