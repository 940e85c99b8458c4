"""Recipes that take more than one run of an application."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import free_address
from tests.spark.harness import Receiver, send
from tests.test_recipes import PAGE, recipe_of
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark


def order(item: str, count: int) -> bytes:
    return json.dumps({"item": item, "count": count}).encode()


def totals(outputs: list[bytes]) -> list[tuple[str, int]]:
    told: list[dict[str, Any]] = [json.loads(output) for output in outputs]
    return [(one["item"], one["total"]) for one in told]


def test_live_messages_go_on_where_the_backfill_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = recipe_of("Backfill", tmp_path / "totals.py")
    section = PAGE.partition("## Backfill")[2].partition("\n## ")[0]
    (shown,) = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    backfill, live = (shlex.split(line)[2:] for line in shown.splitlines())
    Path("old-orders.txt").write_bytes(b"\n".join([order("nut", 2), order("bolt", 1)] * 50) + b"\n")
    with Receiver("lines") as receiver:
        host, port = receiver.address.split(":")
        code = file.read_text().replace('"127.0.0.1", 7002', f'"{host}", {port}')
        file.write_text(code.replace("7010", free_address().rpartition(":")[2]))
        with BackgroundRun([*backfill[:2], "--no-ui", *backfill[2:]]) as running:
            assert running.wait() == 0
        receiver.wait_for(100)
        with BackgroundRun([*live, "--no-ui"]) as running:
            send(running.sources["orders"], [order("nut", 1), order("bolt", 1)] * 2)
            receiver.wait_for(104)
            assert running.stop() == 0
    by_item: dict[str, list[int]] = {}
    for item, total in totals(receiver.messages):
        by_item.setdefault(item, []).append(total)
    assert by_item == {"nut": [*range(2, 101, 2), 101, 102], "bolt": [*range(1, 53)]}
