"""A command that is interrupted while it loads ends at once, and in silence."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

_LOADING = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the tests run in the background

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[-1]:
            sys.argv.pop()
            os.kill(os.getpid(), int(sys.argv.pop()))

sys.meta_path.insert(0, Interrupting())
from wallaroo.__main__ import main
main()
"""


@pytest.mark.parametrize("while_loading", ["wallaroo.cli.main", "wallaroo.cli.options"])
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
    command: str, stop: signal.Signals, code: int, while_loading: str
) -> None:
    interrupted = subprocess.run(
        [sys.executable, "-c", _LOADING, command, str(int(stop)), while_loading],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (interrupted.returncode, interrupted.stdout, interrupted.stderr) == (code, "", "")
