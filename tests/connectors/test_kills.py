"""A gateway that is killed again and again reads rows once, and delivers once to all sinks."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from tests.connectors.child_gateway import child_gateway
from tests.connectors.sse.test_sink_kills import Viewer
from tests.connectors.webhook.receiver import Receiver
from tests.gateway.harness import U32, outputs
from tests.gateway.stand_in import StandIn, journal_of
from tests.helpers import PATIENCE_S, free_address, wait_until
from wallaroo.gateway.internal_api.client import GatewayClient

APP = """
import pathlib
import wallaroo

def application_setup(args):
    directory, hook, port = pathlib.Path(args[0]), args[1], args[2]
    line, row = wallaroo.encoder(str), wallaroo.encoder(dict)
    source = wallaroo.source("Orders", wallaroo.CSVSourceConfig(directory / "*.csv", follow=True))
    return wallaroo.build_application("kills", source.to_sinks([
        wallaroo.SSESinkConfig("127.0.0.1", port, line),
        wallaroo.WebhookSinkConfig(hook, line, batch=4),
        wallaroo.SQLSinkConfig(f"sqlite:///{directory}/shop.db", "totals", row),
        wallaroo.ParquetSinkConfig(directory / "out", row, seconds=0.05),
    ]))
"""
KILLS = 6
EPOCHS = 8
"""Epochs before each kill."""
EACH = 7
"""Outputs of an epoch."""


@contextlib.contextmanager
def gateway(directory: Path, *arguments: str) -> Iterator[GatewayClient]:
    with child_gateway(directory, str(directory), *arguments) as (client, _):
        yield client


def publish(engine: StandIn, epoch: int) -> None:
    numbers = range(EACH * epoch, EACH * (epoch + 1))
    rows = [b'{"n":%d}' % number for number in numbers]
    made = [outputs(*(b"%d" % number for number in numbers), to=0)]
    made += [outputs(*rows, to=sink) for sink in range(1, 4)]
    engine.publish(*made)


def test_all_kinds_of_sinks_have_each_output_once_through_any_number_of_kills() -> None:
    address = free_address()
    with (
        tempfile.TemporaryDirectory() as name,
        Receiver() as receiver,
        StandIn.at(name) as engine,
    ):
        directory, epoch = Path(name), 0  # short, as the name of a Unix socket must be
        (directory / "app.py").write_text(APP)
        started = partial(gateway, directory, receiver.url, address.rpartition(":")[2])
        with contextlib.closing(sqlite3.connect(directory / "shop.db")) as database:
            database.execute("CREATE TABLE totals (n INTEGER)")

        def in_table() -> list[int]:
            with contextlib.closing(sqlite3.connect(directory / "shop.db")) as database:
                return [n for (n,) in database.execute("SELECT n FROM totals ORDER BY rowid")]

        def in_files() -> list[int]:
            files = sorted((directory / "out").glob("[!.]*"))
            return [row["n"] for file in files for row in pq.read_table(file).to_pylist()]

        def posted() -> list[int]:
            bodies = {request.key: request.body for request in receiver.requests}
            return [json.loads(line)["n"] for body in bodies.values() for line in body.splitlines()]

        with started():
            viewer = Viewer(address)
            wait_until(lambda: viewer.connections, "the viewer")
        for turn in range(KILLS):
            rows = "".join(f"{turn},{n}\n" for n in range(1000))
            (directory / "fresh").write_text(f"turn,n\n{rows}")
            (directory / "fresh").rename(directory / f"{turn}.csv")
            with started() as client:
                assert client.wait_until_accepted("Orders", 1000 * turn + 300, PATIENCE_S)
                for _ in range(EPOCHS):
                    publish(engine, epoch)
                    epoch += 1
        due = EACH * epoch
        with started() as client:
            wait_until(lambda: not client.status().undelivered, "the delivery of everything")
            wait_until(lambda: len(viewer.texts) >= due, "all events")
            assert client.wait_until_accepted("Orders", 1000 * KILLS, PATIENCE_S)
            client.stop_accepting()
            read = [
                json.loads(row)
                for chunk in journal_of(directory / "state")
                for row in U32.split(chunk.data)
            ]
            assert client.status().dead_letters == 0
        viewer.end()
        assert in_table() == in_files() == posted() == [*range(due)]
        assert viewer.texts == [str(n) for n in range(due)]
        assert read == [
            {"turn": str(turn), "n": str(n)} for turn in range(KILLS) for n in range(1000)
        ]
