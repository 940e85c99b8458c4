"""The spread of tests over processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.helpers import PATIENCE_S, ROOT

CONFTEST = "from tests.processes import pytest_xdist_make_scheduler\n"
ENDS = """
import os

def test_before(): pass

def test_ends(): os._exit(1)

def test_after(): pass
"""


def test_a_process_that_ends_fails_its_test_and_nothing_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for number in range(6):
        text = ENDS if number == 3 else "def test_one(): pass\n"
        (tmp_path / f"test_{number}.py").write_text(text)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-n",
            "2",
            "--dist",
            "loadscope",
            "-p",
            "no:cacheprovider",
        ],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert "1 failed, 7 passed" in done.stdout, done.stdout
    assert done.returncode == 1
