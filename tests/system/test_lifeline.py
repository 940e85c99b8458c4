"""What a process starts ends with it, also if that is killed together with its parent."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from tests.helpers import PATIENCE_S

PROGRAM = """
import subprocess, time
from wallaroo.system.lifeline import die_with_parent, fork_group
if fork_group() == 0:
    die_with_parent()
    if BETWEEN and fork_group() == 0:
        die_with_parent()
    print(subprocess.Popen(["sleep", "3600"]).pid, flush=True)
time.sleep(3600)
"""


@pytest.mark.parametrize("between", [False, True])
def test_what_forked_processes_have_started_ends_when_the_first_one_is_killed(
    between: bool,
) -> None:
    command = [sys.executable, "-c", PROGRAM.replace("BETWEEN", str(between))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        started = [psutil.Process(int(process.stdout.readline())) for _ in range(1 + between)]
        process.kill()
    assert not psutil.wait_procs(started, PATIENCE_S)[1]
