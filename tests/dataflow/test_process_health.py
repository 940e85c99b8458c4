"""What a process needs besides connections: files that a call has closed or replaced are found."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from wallaroo.dataflow.process_health import PROBLEMS, Health


@pytest.mark.parametrize("damage", [os.close, lambda descriptor: os.dup2(1, descriptor)])
def test_a_file_that_was_closed_or_replaced_is_found(
    tmp_path: Path, damage: Callable[[int], object]
) -> None:
    needed = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    health = Health([needed])
    assert health.problem() == 0
    damage(needed)
    try:
        assert "closed or replaced a connection or a file" in PROBLEMS[health.problem()]
    finally:
        if damage is not os.close:
            os.close(needed)
