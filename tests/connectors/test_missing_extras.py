"""Connectors whose optional packages are not installed."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

import wallaroo
from wallaroo.errors import RuntimeFailure
from wallaroo.resolution.application import resolve

TOPIC = wallaroo.KafkaSourceConfig("localhost:9092", "orders", bytes.decode)
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
