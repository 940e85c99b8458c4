"""The page for users of Bytewax: both sides of each example do the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import ROOT
from wallaroo.testing import load, simulate

PAGE = (ROOT / "docs" / "migrating-from-bytewax.md").read_text()
THEIRS = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
OURS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ORDERS = [
    {"shop": "north", "count": 2},
    {"shop": "south", "count": 1},
    {"shop": "north", "count": 3},
]
READINGS = [
    {"sensor": "a", "at": "2024-01-01T00:00:05+00:00", "celsius": 20},
    {"sensor": "a", "at": "2024-01-01T00:00:30+00:00", "celsius": 22},
    {"sensor": "a", "at": "2024-01-01T00:01:20+00:00", "celsius": 30},
]
EXAMPLES = [
    (0, ORDERS, ["north: 2", "south: 1", "north: 5"]),
    (1, READINGS, ["a: 21.0", "a: 30.0"]),
]
AN_HOUR_NS = 3600 * 10**9


@pytest.mark.parametrize(("number", "messages", "expected"), EXAMPLES)
def test_ours(number: int, messages: list[Any], expected: list[str], tmp_path: Path) -> None:
    file = tmp_path / f"from_bytewax_{number}.py"
    file.write_text(OURS[number])
    sent = [("input", json.dumps(message).encode()) for message in messages]
    result = simulate(load(str(file)), sent, until_ns=AN_HOUR_NS)
    assert [line.decode().strip() for line in result.outputs] == expected


@pytest.mark.parametrize(("number", "messages", "expected"), EXAMPLES)
def test_theirs(number: int, messages: list[Any], expected: list[str]) -> None:
    testing = pytest.importorskip("bytewax.testing", reason="Bytewax is not installed")
    outputs: list[str] = []
    scope = {"source": testing.TestingSource(messages), "sink": testing.TestingSink(outputs)}
    exec(compile(THEIRS[number], "migrating-from-bytewax.md", "exec"), scope)
    testing.run_main(scope["flow"])
    assert outputs == expected
