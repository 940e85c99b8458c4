"""The shim makes clocks wrong and disks slow, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.chaos.shim import Machine, compiled, lacking

PROGRAM = """
    import os, queue, sys, time
    def now():
        began = time.monotonic_ns()
        time.sleep(0.01)
        try:
            queue.Queue().get(timeout=0.01)
        except queue.Empty:
            pass
        waited = time.monotonic_ns()
        os.fsync(file)
        return time.time_ns(), waited - began, time.monotonic_ns() - waited
    file = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
    for line in sys.stdin:
        print(*now(), flush=True)
"""
S = 10**9


@pytest.mark.skipif(lacking() is not None, reason="there is no C compiler")
def test_a_clock_jumps_ahead_and_back_and_a_disk_is_slow(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "machine", compiled(tmp_path))
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path / "file")]
    with subprocess.Popen(
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **machine.environment},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def told(ahead_s: float, sync_s: float) -> list[int]:
            assert process.stdin is not None
            assert process.stdout is not None
            machine.tell(ahead_s, sync_s)
            print(file=process.stdin, flush=True)
            return [int(number) for number in process.stdout.readline().split()]

        first, _, _ = told(0, 0)
        ahead, waited, synced = told(86_400, 0.2)
        back, _, _ = told(0, 0)
        process.stdin.close()
    machine.close()
    assert 86_400 * S <= ahead - first < 87_400 * S
    assert first < back < first + 1000 * S
    assert waited >= S // 50  # by the clock that nobody sets
    assert synced >= S // 5
