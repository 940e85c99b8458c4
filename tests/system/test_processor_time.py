"""Processor time of a container, as both versions of the kernel's control groups tell it."""

from __future__ import annotations

from pathlib import Path

import pytest

from wallaroo.system import processor_time
from wallaroo.system.processor_time import container_seconds


def test_it_is_read_from_the_control_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor_time, "_GROUP", tmp_path)
    assert container_seconds() is None
    (tmp_path / "cpu.stat").write_text("nr_periods 0\n")
    assert container_seconds() is None
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    assert container_seconds() == 2.5
    (tmp_path / "cpuacct").mkdir()
    (tmp_path / "cpuacct" / "cpuacct.usage").write_text("1500000000\n")
    assert container_seconds() == 1.5
