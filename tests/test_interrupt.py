"""A command that is interrupted ends at once, and without a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import PATIENCE_S

_INTERRUPTING = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the tests run in the background

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ.get("WHILE_LOADING"):
            del os.environ["WHILE_LOADING"]
            os.kill(os.getpid(), int(os.environ["STOP"]))

sys.meta_path.insert(0, Interrupting())
"""
"""Python imports it as it starts, before it reads the command."""


@pytest.mark.parametrize(
    "while_loading",
    ["wallaroo", "wallaroo.api.windows", "click", "wallaroo.cli.main", "wallaroo.cli.options"],
)
@pytest.mark.parametrize(
    ("command", "stop", "code"),
    [
        ("run", signal.SIGINT, 0),
        ("run", signal.SIGTERM, 0),
        ("check", signal.SIGINT, 130),
        ("gateway", signal.SIGTERM, -signal.SIGTERM),
    ],
)
def test_a_command_that_is_interrupted_while_it_loads(
    command: str, stop: signal.Signals, code: int, while_loading: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_INTERRUPTING)
    interrupted = subprocess.run(
        [Path(sys.executable).with_name("wallaroo"), command],
        env={
            **os.environ,
            "PYTHONPATH": str(tmp_path),
            "STOP": str(int(stop)),
            "WHILE_LOADING": while_loading,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (interrupted.returncode, interrupted.stdout, interrupted.stderr) == (code, "", "")


_INTERRUPTED = """
import os, signal

import wallaroo

signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the tests run in the background


@wallaroo.computation(name="interrupt")
def interrupt(text):
    if text.isdigit():
        os.kill(os.getpid(), int(text))
    return text


def application_setup(args):
    config = wallaroo.TCPSourceConfig("", 7010, bytes.decode, framing="lines")
    lines = wallaroo.source("lines", config)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str.encode))
    return wallaroo.build_application("interrupted", lines.to(interrupt).to_sink(sink))
"""


@pytest.mark.parametrize(
    ("stop", "code", "said"),
    [(signal.SIGINT, 130, "interrupted\n"), (signal.SIGTERM, -signal.SIGTERM, "")],
)
def test_a_simulation_that_is_interrupted_while_messages_flow(
    stop: signal.Signals, code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "application.py").write_text(_INTERRUPTED)
    interrupted = subprocess.run(
        [Path(sys.executable).with_name("wallaroo"), "simulate", tmp_path],
        input=f"before\n{int(stop)}\nafter\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (interrupted.returncode, interrupted.stdout, interrupted.stderr) == (code, "", said)


def test_a_command_does_not_wait_for_threads_that_an_application_starts(tmp_path: Path) -> None:
    code = (
        "import threading\nthreading.Thread(target=threading.Event().wait, name='poller').start()"
    )
    (tmp_path / "application.py").write_text(code)
    ended = subprocess.run(
        [sys.executable, "-m", "wallaroo", "check", tmp_path / "application.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 1
    assert ended.stderr.endswith("Not waiting for threads of the application: 'poller'\n")
