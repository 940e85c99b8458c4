"""What a query may do, and what is told of one that is wrong."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.run.queries.entities import Entity, rows, tables_of
from wallaroo.errors import UsageError


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELEC 1", 'line 1, column 1: syntax error at or near "SELEC"'),
        ("SELECT 'é',\n nix FROM state", 'line 2, column 2: Referenced column "nix" not found'),
        ("SELECT n FROM nix", 'line 1, column 15: there is no table "nix"; the tables are "state"'),
        ("SELECT 'a'::INTEGER", "the query: Could not convert string 'a' to INT32"),
        ("SELECT '\udc80'", "the query is not Unicode text, at character 9"),
        ("SELECT ?", "the query: Values were not provided"),
        ("SELECT 1; SELECT 2", "expected a single statement that reads"),
        ("", "expected a single statement that reads"),
        ("-- nothing", "expected a single statement that reads"),
        ("INSERT INTO state VALUES (1, 2)", "expected a single statement that reads"),
        ("COPY state TO '{}/copy.csv'", "expected a single statement that reads"),
        ("ATTACH '{}/other.db'", "expected a single statement that reads"),
        ("SET enable_external_access = true", "expected a single statement that reads"),
        ("LOAD httpfs", "expected a single statement that reads"),
        ("SELECT * FROM read_text('{}/secret')", "file system operations are disabled"),
        ("SELECT * FROM read_csv('{}/*')", "file system operations are disabled"),
        ("SELECT * FROM glob('{}/*')", "file system operations are disabled"),
        ("SELECT * FROM '{}/secret'", "there is no table"),
        ("SELECT * FROM rows", 'there is no table "rows"'),  # a variable of Python
    ],
)
def test_a_query_that_is_wrong_or_does_not_only_read(query: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    asked = query.replace("{}", str(tmp_path))
    with tables_of(("state", 1, Entity(n=1))) as tables, pytest.raises(UsageError) as raised:
        rows(tables, asked)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)
    assert [file.name for file in tmp_path.iterdir()] == ["secret"]


@pytest.mark.parametrize(
    "query",
    [
        "FROM state",
        "SELECT n FROM state; -- all of it",
        "SELECT 'a; -- b' FROM state",
        "WITH one AS (FROM state) SELECT * FROM one",
        "PIVOT state ON n USING count(*)",
        "SUMMARIZE state",
        "VALUES (1)",
    ],
)
def test_statements_that_read(query: str) -> None:
    with tables_of(("state", 1, Entity(n=1))) as tables:
        assert len(rows(tables, query)) >= 1


def test_columns_of_one_name() -> None:
    with tables_of(("state", 1, Entity(n=1))) as tables:
        joined = "SELECT * FROM state AS one JOIN state AS other ON one.n = other.n"
        assert rows(tables, joined) == [{"key": 1, "n": 1, "key_1": 1, "n_1": 1}]


def test_ctrl_c_ends_a_query() -> None:
    endless = "SELECT sum(hash(a.range, b.range)) FROM range(10000000) a, range(10000000) b"
    with tables_of(("state", 1, Entity(n=1))) as tables:

        def signalled(documents: Iterator[str]) -> list[str]:
            tables._thread.submit(os.kill, os.getpid(), signal.SIGINT)
            return list(documents)

        with tables.result(endless) as result, pytest.raises(KeyboardInterrupt):
            signalled(result.documents())
