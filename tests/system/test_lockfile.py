"""A lock file is held by one process at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wallaroo.errors import RuntimeFailure
from wallaroo.system import lockfile


def test_a_second_holder_is_refused_until_the_first_lets_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lockfile, "_WAIT_S", 0.0)
    file = tmp_path / "lock"
    held = lockfile.hold(file, "…")
    with pytest.raises(RuntimeFailure, match="is in use by another process; is there another"):
        lockfile.hold(file, "is there another?")
    waits: list[float] = []
    with pytest.raises(RuntimeFailure):
        lockfile.hold(file, "…", wait_s=0.3, on_wait=waits.append)
    assert waits == [0.3]
    os.close(held)
    os.close(lockfile.hold(file, "…"))
