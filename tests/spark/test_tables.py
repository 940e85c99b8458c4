"""A file that is the table of a join is read before the orders, in a run on Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark.harness import called

pytestmark = pytest.mark.spark

CUSTOMERS = 2_000
APP = """
import json
import wallaroo

@wallaroo.table_join(
    name="name", how="left", table_first=True, deleted=lambda customer: not customer["name"]
)
def name(order, customer):
    return [order["id"], None if customer is None else customer["name"]]

def application_setup(args):
    lines = wallaroo.FileSourceConfig("orders.ndjson", json.loads, "lines")
    orders = wallaroo.source("orders", lines).key_by(lambda order: order["customer"])
    rows = wallaroo.source("customers", wallaroo.CSVSourceConfig("customers.csv"))
    customers = rows.key_by(lambda customer: int(customer["id"]))
    sink = wallaroo.FileSinkConfig("named", wallaroo.encoder(json.dumps), framing="lines")
    return wallaroo.build_application("named", orders.join(customers, name).to_sink(sink))
"""


def test_every_order_of_a_backlog_meets_the_whole_table(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    orders = ({"id": number, "customer": number} for number in range(CUSTOMERS))
    (tmp_path / "orders.ndjson").write_text("".join(json.dumps(one) + "\n" for one in orders))
    run = ("run", tmp_path / "app.py", "--state-dir", tmp_path / "state", "--until-done")

    ran = called(*run)  # the table cannot be read, so that the orders wait
    assert ran.returncode == 1, ran.stderr
    assert f"source 'customers' (file {tmp_path}/customers.csv) cannot continue" in ran.stderr
    assert not (tmp_path / "named").read_bytes()

    rows = [f"{number},old" for number in range(CUSTOMERS)]
    rows += [f"{number},{'' if number % 5 else f'name {number}'}" for number in range(CUSTOMERS)]
    (tmp_path / "customers.csv").write_text("id,name\n" + "\n".join(rows) + "\n")
    ran = called(*run)
    assert ran.returncode == 0, ran.stderr
    named = [json.loads(line) for line in (tmp_path / "named").read_text().splitlines()]
    due = [[number, None if number % 5 else f"name {number}"] for number in range(CUSTOMERS)]
    assert sorted(named, key=lambda one: one[0]) == due
