"""Each claim of the comparison about another system has a source, and each source is used."""

from __future__ import annotations

import re

from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "comparison.md").read_text()
TABLES, SOURCES = PAGE.split("## Sources\n")
SYSTEMS = {
    "Bytewax": "B",
    "Quix Streams": "Q",
    "Faust": "F",
    "Pathway": "P",
    "PyFlink": "L",
}


def test_sources_are_there_and_used() -> None:
    used = {
        name
        for names in re.findall(r"\[([A-Z]\d+(?:, [A-Z]\d+)*)\]", TABLES)
        for name in names.split(", ")
    }
    given = re.findall(r"(?<![\w/])([BQFPL]\d+) ", SOURCES)
    assert len(given) == len(set(given))
    assert used == set(given)


def test_every_table_of_features_has_a_row_for_each_system() -> None:
    features = TABLES.split("## Feature by feature\n")[1].split("## Measurements")[0]
    tables = re.split(r"^### ", features, flags=re.MULTILINE)[1:]
    assert len(tables) == 4
    for table in tables:
        rows = re.findall(r"^\| ([^|]+) \|(.*)\|$", table, re.MULTILINE)
        names = [name for name, _ in rows if not name.startswith("-")]
        assert names == ["here", *SYSTEMS], table


def test_a_system_is_judged_by_its_own_sources() -> None:
    for system, letter in SYSTEMS.items():
        rows = re.findall(rf"^\| {system} \|(.*)$", TABLES, re.MULTILINE)
        assert len(rows) == 4
        for row in rows:
            cited = set(re.findall(r"\b([BQFPL])\d+\b", row))
            assert cited == {letter}, row
