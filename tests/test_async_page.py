"""The page of async and batched steps: each example does what the lines below it show."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.dataflow.harness import drive_all
from tests.helpers import ROOT
from wallaroo.api import gathered_functions
from wallaroo.dataflow.steps import awaiting
from wallaroo.gateway.chunks.pace import AWAITED_CHUNK_BYTES
from wallaroo.testing import load, simulate

PAGE = (ROOT / "docs" / "async.md").read_text()
COMMON, *_ = BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
EXAMPLES = re.findall(r"```python\n((?:(?!```).)*)```\n\n```\n(.*?)```", PAGE, re.DOTALL)


class _Client:
    """Answers as httpx's client would; counts how often it is made."""

    made = 0

    def __init__(self, **_options: Any) -> None:
        _Client.made += 1

    async def get(self, path: str) -> _Client:
        await asyncio.sleep(0)
        self.path = path
        return self

    def json(self) -> int:
        return len(self.path.rpartition("/")[2])


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_does_what_it_shows(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpx = ModuleType("httpx")
    vars(httpx).update(AsyncClient=_Client, HTTPError=OSError)
    monkeypatch.setitem(sys.modules, "httpx", httpx)
    code, shown = EXAMPLES[number]
    file = tmp_path / f"async_example_{number}.py"
    file.write_text(COMMON + code)
    lines = shown.splitlines()
    expected = [f"{line[2:]}\n".encode() for line in lines if line.startswith("< ")]
    sent = [
        (name, payload.encode())
        for name, _, payload in (line.partition("> ") for line in lines)
        if not name.startswith("<")
    ]
    application = load(str(file))
    result = simulate(application, sent)
    assert result.outputs == expected != []
    assert not result.set_aside
    assert not application.hints
    assert drive_all(application, sent, [0] * len(sent)).outputs["orders"] == expected
    if "httpx" in code:
        assert _Client.made == 1


def test_every_example_is_found() -> None:
    assert len(EXAMPLES) == len(BLOCKS) - 1 == 3


def test_the_defaults_and_limits_are_those_of_the_code() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", PAGE, re.MULTILINE))
    assert rows["concurrency"] == str(gathered_functions.DEFAULT_CONCURRENCY)
    assert rows["timeout"] == f"{gathered_functions.DEFAULT_TIMEOUT // 10**9} s"
    assert rows["max"] == str(gathered_functions.DEFAULT_BATCH)
    assert f"at most {gathered_functions.LONGEST_WAIT_NS // 10**9} s" in PAGE
    assert f"does not end {awaiting._GRACE_S:g} s after it was cancelled" in PAGE
    assert f"({AWAITED_CHUNK_BYTES // 1024} KiB)" in PAGE
