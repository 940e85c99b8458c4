"""Sinks that are tables in the normal form, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import wallaroo
from tests.resolution.declared import begun, only_problem
from wallaroo.connectors.sql.resolve import SQLSink
from wallaroo.resolution.application import resolve

unchecked: Any = wallaroo
"""The API as an author has it who uses no type checker."""


@wallaroo.encoder
def as_row(line: str) -> dict[str, Any] | None:
    return {"line": line} if line else None


def table(url: Any = "sqlite:////shop.db", name: Any = "totals", **settings: Any) -> Any:
    return unchecked.SQLSinkConfig(url, name, as_row, **settings)


def test_a_table_takes_rows() -> None:
    config = table("postgresql+psycopg://app@db:5432/shop?sslmode=require", schema="s", key=["a"])
    (sink,) = resolve(begun().to_sink(config).build()).sinks
    assert isinstance(sink, SQLSink)
    assert (sink.where, sink.label) == (
        "table s.totals of postgresql://db:5432/shop",
        "table s.totals",
    )
    assert sink.encode("x") == b'{"line":"x"}'
    nothing: Any = sink.encode("")
    assert nothing is None
    (sink,) = resolve(begun().to_sink(table("sqlite:////shop.db")).build()).sinks
    assert sink.where == "table totals of sqlite:////shop.db"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"url": "db.example.org/shop"},
            "url is 'db.example.org/shop'; expected an address such as "
            "'postgresql+psycopg://app@db.example.org/shop'",
        ),
        (
            {"url": "postgresql://app:secret@db/shop"},
            "url contains a password; write it to a file and pass password_file",
        ),
        ({"name": ""}, "table is ''; expected a name"),
        ({"schema": 7}, "schema is 7; expected a name"),
        ({"key": "item"}, "key is the text 'item'; expected a list of columns: ['item']"),
        ({"on_refused": "drop"}, "on_refused is 'drop'; expected 'set-aside' or 'wait'"),
        (
            {"options": {"password": "secret"}},
            "options has 'password', a secret: write it to a file, and pass password_file",
        ),
    ],
)
def test_settings_of_a_table_that_make_no_sense_are_told(
    settings: dict[str, Any], problem: str
) -> None:
    told = only_problem(begun().to_sink(table(**settings)))
    assert told.endswith(f": pipeline 'lines': {problem}")
    assert resolve(begun().to_sink(table("postgresql://app:${PASSWORD}@db/shop")).build())
