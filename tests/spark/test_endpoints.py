"""Rows of files reach browsers, a webhook, a table and files, each once, whatever is killed."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.connectors.sse.test_sink_kills import Viewer
from tests.connectors.webhook.receiver import Receiver
from tests.helpers import free_address, wait_until
from tests.spark.harness import PATIENCE_S, kill_gateway
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

APP = """
from pathlib import Path

import wallaroo


def application_setup(args):
    directory, hook, port = Path(args[0]), args[1], args[2]
    rows = wallaroo.CSVSourceConfig(directory / "*.csv", order, follow=True)
    orders = wallaroo.source("Orders", rows)
    totals = orders.key_by(item).to(add)
    return wallaroo.build_application(
        "Endpoints",
        totals.to_sinks(
            [
                wallaroo.SSESinkConfig("127.0.0.1", port, line),
                wallaroo.WebhookSinkConfig(hook, line, batch=50),
                wallaroo.SQLSinkConfig(f"sqlite:///{directory}/shop.db", "totals", row),
                wallaroo.ParquetSinkConfig(directory / "out", row, seconds=0.5),
            ]
        ),
    )


def order(values):
    return values["item"], int(values["count"])


@wallaroo.key_extractor
def item(order):
    return order[0]


class Total:
    def __init__(self):
        self.count = 0


@wallaroo.state_computation(name="add", state=Total)
def add(order, total):
    total.count += order[1]
    return order[0], total.count


@wallaroo.encoder
def line(total):
    return f"{total[0]}: {total[1]}"


@wallaroo.encoder
def row(total):
    return {"item": total[0], "total": total[1]}
"""
ITEMS, ROUNDS = 20, 30


def write_orders(directory: Path, number: int) -> None:
    rows = "".join(f"item {n % ITEMS},1\n" for n in range(ITEMS * ROUNDS))
    (directory / "fresh").write_text(f"item,count\n{rows}")
    (directory / "fresh").rename(directory / f"{number}.csv")


def test_outputs_are_everywhere_once(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("CREATE TABLE totals (item TEXT, total INTEGER, UNIQUE (item, total))")

    def totals() -> list[Any]:
        with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as database:
            return database.execute("SELECT item, total FROM totals").fetchall()

    def files() -> list[Any]:
        paths = sorted((tmp_path / "out").glob("[!.]*.parquet"))
        rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
        return [(row["item"], row["total"]) for row in rows]

    with Receiver() as receiver:

        def posted() -> list[str]:
            by_key = {request.key: request.body for request in receiver.requests}
            return [line for body in by_key.values() for line in body.decode().splitlines()]

        (tmp_path / "app.py").write_text(APP)
        address = free_address()
        command = ["run", str(tmp_path / "app.py"), "--workers", "2", "--state-dir"]
        command += [str(tmp_path / "state"), "--", str(tmp_path), receiver.url]
        viewer = Viewer(address)

        def has_all(found: Callable[[], list[Any]], count: int) -> bool:
            return len(found()) >= count

        for turn in range(2):
            count = (turn + 1) * ITEMS * ROUNDS
            with BackgroundRun([*command, address.rpartition(":")[2]]) as running:
                wait_until(partial(viewer.has_connected, 2 * turn + 1), "the viewer", PATIENCE_S)
                write_orders(tmp_path, turn)
                wait_until(partial(has_all, totals, count - 300), "some rows", PATIENCE_S)
                kill_gateway(running)
                for found in (totals, files, posted, lambda: viewer.texts):
                    wait_until(partial(has_all, found, count), "all of it", PATIENCE_S)
                assert running.stop() == 0
        viewer.end()
    due = [(f"item {n}", total) for n in range(ITEMS) for total in range(1, 2 * ROUNDS + 1)]
    lines = [f"{item}: {total}" for item, total in due]
    assert sorted(totals()) == sorted(due)
    assert sorted(files()) == sorted(due)
    assert Counter(posted()) == Counter(lines)
    assert Counter(viewer.texts) == Counter(lines)
