"""What user code prints and logs in workers is told with where it was said."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.helpers import free_address, wait_until
from tests.spark.harness import PATIENCE_S, Receiver, run, send
from wallaroo.run.background_run import BackgroundRun, Event

pytestmark = pytest.mark.spark

APP = Path(__file__).parent / "talking.py"


def told(running: BackgroundRun, event: str) -> list[Event]:
    return [one for one in running.events if one["event"] == event]


def test_prints_and_logs_say_which_step_said_them_and_a_port_that_is_taken_is_told(
    tmp_path: Path,
) -> None:
    """Parts have levels of their own, and a flood is cut."""
    options = ("--log-level", "error,driver=info,application=info")
    with (
        Receiver("lines") as receiver,
        run(APP, receiver, tmp_path, options=(*options, "--ui", receiver.address)) as running,
    ):
        (elsewhere,) = told(running, "dashboard elsewhere")
        assert elsewhere["wanted"] == receiver.address
        (ready,) = told(running, "ready")
        assert ready["dashboard"] == elsewhere["dashboard"]
        send(running.sources["Talk"], [b"ada", b"bad"])
        receiver.wait_for(1)
        wait_until(lambda: told(running, "ADA came"), "what the state computation logs")
        (printed,) = told(running, "shouting ada")
        assert printed["level"] == "info"
        assert (printed["part"], printed["application"]) == ("application", "Talking")
        assert (printed["pipeline"], printed["step"]) == ("Talk", "shout")
        assert printed["place"].startswith("talking.py:")
        assert printed["worker"].startswith("pid ")
        (logged,) = told(running, "ADA came")
        assert (logged["level"], logged["step"], logged["said"]) == ("warning", "count", "talking")
        wait_until(lambda: told(running, "message set aside"), "the message set aside")
        (aside,) = told(running, "message set aside")
        assert aside["part"] == "driver"
        assert "message" not in aside
        send(running.sources["Talk"], [b"ada"] * 20_000)
        receiver.wait_for(20_001)
        assert running.stop() == 0
    assert not told(running, "receiver connected")
    assert told(running, "stopped")
    assert 1 < len(told(running, "ADA came")) < 10_000
    assert {"part", "event", "level", "timestamp"} <= set.intersection(*map(set, running.events))


def test_a_run_goes_on_where_its_log_cannot_be_written(tmp_path: Path) -> None:
    address = free_address()
    with contextlib.ExitStack() as stack:
        receiver = stack.enter_context(Receiver("lines"))
        full = stack.enter_context(Path("/dev/full").open("wb", buffering=0))
        command = [sys.executable, "-m", "wallaroo", "run", str(APP), "--in", address]
        command += ["--out", receiver.address, "--state-dir", str(tmp_path)]
        running = stack.enter_context(subprocess.Popen(command, stderr=full))
        stack.callback(running.kill)
        wait_until(lambda: listens(address), "the source", PATIENCE_S)
        send(address, [b"ada", b"bad", b"bob"])  # one is set aside, which is to be logged
        receiver.wait_for(2)
        (gateway,) = [p for p in psutil.Process(running.pid).children() if "gateway" in p.cmdline()]
        gateway.kill()  # and so is this
        gateway.wait(PATIENCE_S)
        wait_until(lambda: listens(address), "the source of the next gateway", PATIENCE_S)
        send(address, [b"eve"])
        receiver.wait_for(3)
        running.terminate()
        running.wait(PATIENCE_S)


def listens(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    with socket.socket() as connection:
        return connection.connect_ex((host, int(port))) == 0
