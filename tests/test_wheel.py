"""What is in a wheel of this project besides Python."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.helpers import ROOT
from wallaroo.engine.realtime.jar import SOURCES, jar


def test_a_wheel_has_the_jar_of_the_real_time_engine_and_its_sources(tmp_path: Path) -> None:
    made = jar()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (packed,) = [name for name in names if name.endswith(".jar")]
        assert archive.read(packed) == made.read_bytes()
    folder = "wallaroo/engine/realtime/jvm"
    assert packed == f"{folder}/{made.name}"
    assert {f"{folder}/{source.name}" for source in SOURCES} <= names
