"""`wallaroo sql`: tables, formats, and what it says on stderr."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from tests.cli.test_check_state import APPLICATION
from tests.golden import PRESENT
from tests.helpers import ROOT, unpack
from tests.run.queries.entities import tables_of
from wallaroo.cli.main import main
from wallaroo.cli.query_output import write_text
from wallaroo.cli.sql import listing
from wallaroo.model.application import StateCompute
from wallaroo.testing import load

TOTALS = [
    {"key": "a", "messages": 2, "texts": ["a1", "a2"]},
    {"key": "b", "messages": 1, "texts": ["b1"]},
    {"key": "c", "messages": 1, "texts": ["c1"]},
]


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """State directories of the golden applications, each in the folder of its name."""
    directory = tmp_path_factory.mktemp("golden")
    for name in ("plain", "states", "windows", "sessions", "joins", "timers"):
        unpack(PRESENT / f"{name}.tar.gz", directory / name)
    return directory


def ask(golden: Path, name: str, *arguments: str, typed: str | None = None) -> Result:
    at = ("--state-dir", str(golden / name), "--", name)
    return CliRunner().invoke(main, ["sql", "tests.golden.applications", *arguments, *at], typed)


def answer(golden: Path, name: str, query: str) -> list[dict[str, object]]:
    done = ask(golden, name, query, "--format", "json")
    assert (done.exit_code, done.stderr) == (0, "")
    return list(map(json.loads, done.stdout.splitlines()))


def test_without_a_query_tables_are_listed(golden: Path) -> None:
    done = ask(golden, "states", "")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "table         rows  column    type",
        "------------  ----  --------  --------------------",
        "slots         3     key       VARCHAR",
        "slots         3     messages  BIGINT",
        "dictionaries  2     key       VARCHAR",
        "dictionaries  2     value     MAP(VARCHAR, BIGINT)",
        "own way       2     key       BIGINT",
        "own way       2     value     JSON",
    ]


def test_an_answer_as_json_and_csv(golden: Path) -> None:
    query = "FROM totals ORDER BY key"
    assert answer(golden, "plain", query) == TOTALS
    done = ask(golden, "plain", "SELECT key AS \"a,b\", NULL, '' FROM totals", "--format", "csv")
    assert sorted(done.stdout.splitlines()) == ["\"a,b\",NULL,''", *(f'{k},,""' for k in "abc")]


def test_a_table_shows_one_line_for_each_row(golden: Path) -> None:
    query = "SELECT chr(10) || chr(27) AS odd, repeat('é', 70) AS long, NULL AS nothing"
    done = ask(golden, "plain", query)
    assert done.stdout.splitlines() == [
        f"odd     long{' ' * 56}  nothing",
        f"------  {'-' * 60}  -------",
        rf"\n\x1b  {'é' * 59}…  NULL",
    ]


def test_a_file_has_the_format_of_its_name_unless_another_is_asked_for(
    golden: Path, tmp_path: Path
) -> None:
    file = tmp_path / "totals.parquet"
    for _ in range(2):  # the second time, it is replaced
        done = ask(golden, "plain", "-", "--to", str(file), typed="FROM totals ORDER BY key;\n")
        assert (done.exit_code, done.output) == (0, "")
        assert pq.read_table(file).to_pylist() == TOTALS
    for name in ("rows.jsonl", "rows.csv", "rows"):
        assert not ask(golden, "plain", "FROM totals", "--to", str(tmp_path / name)).exit_code
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 3
    assert (tmp_path / "rows.csv").read_text().startswith("key,messages,texts\n")
    assert (tmp_path / "rows").read_text().startswith("key  messages  texts\n")
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["FROM totals", "--format", "parquet"], "Parquet needs a file: name it with --to FILE"),
        (["FROM totals", "--to", "/none/x.csv"], "/none/x.csv cannot be written: No such file"),
        (["FROM nix"], 'the query, line 1, column 6: there is no table "nix"; the tables are'),
        (
            ["--", "--in"],
            "'--in' is not a query; put a query, or '', before the application's arguments",
        ),
        (["-"], "there is no query on standard input"),
        (["SELECT INTERVAL 1 DAY AS d", "--to", "{}/x.parquet"], "Parquet has no type for"),
    ],
)
def test_refusals(golden: Path, tmp_path: Path, arguments: list[str], told: str) -> None:
    done = ask(golden, "plain", *(one.replace("{}", str(tmp_path)) for one in arguments))
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr
    assert not list(tmp_path.iterdir())


def test_windows_and_joins_have_a_row_for_each_that_is_open_or_kept(golden: Path) -> None:
    query = "SELECT window_start::DATE AS day, value FROM Gather WHERE key = 'b' ORDER BY ALL"
    assert answer(golden, "windows", query) == [
        {"day": "2220-01-03", "value": ["b3"]},
        {"day": "2270-01-03", "value": ["b3"]},
    ]
    (counted,) = answer(golden, "windows", 'FROM "Gather#2"')
    assert (counted["window_messages"], counted["value"]) == (2, ["b0", "b3"])
    (session,) = answer(golden, "sessions", "FROM GatherEarly WHERE key = 'b'")
    assert session["value"] == ["b3"]
    assert {row["value"] for row in answer(golden, "joins", "FROM last")} == {"a1", "b1", "d0"}
    sides = "SELECT side, count(*) AS n FROM near GROUP BY side ORDER BY side"
    assert answer(golden, "joins", sides) == [{"side": "left", "n": 5}, {"side": "right", "n": 3}]


def test_times_of_keys_are_columns(golden: Path) -> None:
    (row,) = answer(golden, "timers", "FROM forget WHERE key = 'a'")
    assert list(row)[:3] == ["key", "key_time", "key_expires"]
    (row,) = answer(golden, "timers", "FROM \"count and remind\" WHERE key = 'a'")
    assert list(row)[:3] == ["key", "key_time", "key_timers"]


def test_entities_of_other_states_are_told(golden: Path, tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(APPLICATION)
    asked = ["sql", str(tmp_path / "application.py"), "", "--state-dir", str(golden / "plain")]
    done = CliRunner().invoke(main, [*asked, "--", "others"])
    assert done.exit_code == 0
    told = json.loads(done.stderr)
    assert (told["event"], told["state"]) == ("entities are in no table", "totals")


def test_entities_that_cannot_be_loaded_are_told_and_others_are_there(
    golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any, texts: Sequence[str] = ()) -> None:
        if "cc" in texts:
            msg = "no"
            raise ValueError(msg)
        self.texts = list(texts)

    monkeypatch.setattr("tests.golden.applications.OwnWay.__init__", refuse)
    done = ask(golden, "states", 'SELECT key FROM "own way"', "--format", "json")
    assert (done.exit_code, done.stdout) == (1, '{"key":2}\n')
    assert done.stderr.startswith("Error: state 'own way', key 3: the entity, of class ")
    assert ask(golden, "states", "FROM slots").exit_code == 0


def test_duckdb_is_an_extra(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    done = ask(golden, "plain", "")
    assert done.exit_code == 2
    assert "pip install 'wallaroo[queries]'" in done.stderr


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    done = ask(tmp_path, "plain", "FROM totals")
    assert done.exit_code == 2
    assert "is not a state directory" in done.stderr


def test_the_page_shows_what_the_tables_and_queries_are(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "state.md").read_text()
    common = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    section = page.partition("## Query the state with SQL")[2]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (commands,) = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    file = tmp_path / "spending.py"
    file.write_text(common + code)
    application = load(str(file))
    (step,) = (s for s in application.pipelines[0].trunk.walk() if isinstance(s, StateCompute))
    entities: dict[str, Any] = {}
    for payload in re.findall(r"^orders> (.*)", section, re.MULTILINE):
        order = json.loads(payload)
        if order["user"] not in entities:
            entities[order["user"]] = application.partitions["spend"].new_entity()
        step.function(order, entities[order["user"]])
    saved = [("spend", key, entity) for key, entity in entities.items()]
    with tables_of(*saved, spend=application.partitions["spend"].new_entity) as tables:
        for shown in commands.split("$ wallaroo sql spending.py")[1:]:
            command, _, expected = shown.partition("\n")
            query, *options = shlex.split(command) or [listing(tables)]
            out = io.StringIO()
            with tables.result(query) as result:
                write_text(result, "csv" if "csv" in options else "table", out)
            assert out.getvalue() == expected
