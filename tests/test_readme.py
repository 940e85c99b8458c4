"""What the README and the pages show is what happens."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

import wallaroo
import wallaroo.testing
from wallaroo.connectors.python.resolve import CustomSink
from wallaroo.testing import load, simulate

README = Path(__file__).parents[1] / "README.md"
CONNECTORS = README.parent / "docs" / "connectors.md"


def test_the_application_and_the_test_in_the_readme_work(tmp_path: Path) -> None:
    application, test = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (tmp_path / "votes.py").write_text(application)
    test = test.replace('"votes.py"', repr(str(tmp_path / "votes.py")))
    scope: dict[str, object] = {}
    exec(compile(test, "README.md", "exec"), scope)
    assert scope["load"] is load
    assert scope["simulate"] is simulate


def test_the_unit_test_on_the_page_of_testing_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    application, _ = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    page = (README.parent / "docs/reference/testing.md").read_text()
    (test,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "votes.py").write_text(application)
    monkeypatch.syspath_prepend(tmp_path)
    scope: dict[str, Any] = {}
    exec(compile(test, "testing.md", "exec"), scope)
    scope["test_a_vote_counts"]()
    sys.modules.pop("votes")


def test_the_application_and_the_test_on_the_page_of_sources_and_sinks_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    application, test = re.findall(r"```python\n(.*?)```", CONNECTORS.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(application)
    with contextlib.closing(sqlite3.connect("shop.db", isolation_level=None)) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, count INTEGER)")
        orders = [("nut", 2), ("bolt", 1), ("nut", 3)]
        database.executemany("INSERT INTO orders (item, count) VALUES (?, ?)", orders)
    exec(compile(test, "connectors.md", "exec"), {})
    sink = load("shop.py", ["shop.db"]).sinks[0]
    assert isinstance(sink, CustomSink)
    for first, outputs in [(0, [b"a", b"b"]), (1, [b"b", b"c"])]:  # the second after a kill
        sink.writer.open("numbering")
        sink.writer.write(first, outputs)
        sink.writer.close()
    with contextlib.closing(sqlite3.connect("shop.db")) as database:
        assert database.execute("SELECT total FROM totals").fetchall() == [("a",), ("b",), ("c",)]


def test_every_link_to_a_file_leads_somewhere() -> None:
    for page in [
        README,
        *README.parent.glob("docs/**/*.md"),
        *README.parent.glob("apps/*/README.md"),
    ]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_all_that_applications_import_is_in_the_reference() -> None:
    reference = (README.parent / "docs/reference/wallaroo.md").read_text()
    shown = re.findall(r"^::: wallaroo\.(\w+)$", reference, re.MULTILINE)
    assert sorted(shown) == sorted(wallaroo.__all__)
    assert "::: wallaroo.testing\n" in (README.parent / "docs/reference/testing.md").read_text()
