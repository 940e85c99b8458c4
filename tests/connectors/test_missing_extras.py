"""Connectors whose optional packages are not installed."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import pytest

import wallaroo
from wallaroo.connectors.sql.address import Database
from wallaroo.connectors.sql.resolve import SQLSink
from wallaroo.errors import RuntimeFailure
from wallaroo.resolution.application import resolve

TOPIC = wallaroo.KafkaSourceConfig("orders", "localhost:9092", bytes.decode)
TABLE: Any = wallaroo.SQLSinkConfig("postgresql://localhost/shop", "orders", wallaroo.encoder(dict))


@pytest.mark.parametrize(
    ("package", "extra"), [("confluent_kafka", "kafka"), ("sqlalchemy", "sql")]
)
def test_a_missing_extra_is_found_without_a_run(
    package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *of: None if name == package else found(name, *of)
    )
    pipeline: Any = wallaroo.source("orders", TOPIC)
    application = resolve(wallaroo.build_application("shop", pipeline.to_sink(TABLE)))
    (end,) = application.sources if extra == "kafka" else application.sinks
    with pytest.raises(RuntimeFailure, match=rf"pip install '?wallaroo\[{extra}\]"):
        end.check()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (
            "mysql://app@${HOST}:${PORT}/shop",
            "needs the driver of table orders of mysql://${HOST}:${PORT}/shop, which is not "
            "installed: pip install 'mysqlclient'",
        ),
        ("postgresql+psycopg3://db/shop", "url cannot be used: Can't load plugin: "),
    ],
)
def test_a_run_says_of_a_missing_driver_what_a_check_says(url: str, problem: str) -> None:
    table: Any = wallaroo.SQLSinkConfig(url, "orders", wallaroo.encoder(dict))
    pipeline: Any = wallaroo.source("orders", TOPIC)
    (sink,) = resolve(wallaroo.build_application("shop", pipeline.to_sink(table))).sinks
    assert isinstance(sink, SQLSink)
    for checked in (sink.check, lambda: Database(sink, {})):
        with pytest.raises(RuntimeFailure, match=re.escape(problem)):
            checked()
