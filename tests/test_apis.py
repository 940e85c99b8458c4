"""The page of the three APIs: its applications are one and the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import wallaroo
from tests.helpers import ROOT
from wallaroo.testing import load, simulate

PAGE = ROOT / "docs" / "apis.md"
APPLICATIONS = re.findall(
    r"^## ([^\n]*)\n\n```python\n(.*?)```", PAGE.read_text(), re.MULTILINE | re.DOTALL
)
ADDRESSES = ["--in", "127.0.0.1:7010", "--out", "127.0.0.1:7002"]


@pytest.mark.parametrize(("name", "application"), APPLICATIONS, ids=lambda part: part[:8])
def test_the_application_counts_votes(name: str, application: str, tmp_path: Path) -> None:
    file = tmp_path / f"votes_{APPLICATIONS.index((name, application))}.py"
    file.write_text(application)
    votes = [("Votes", vote) for vote in (b"ada", b" ", b"grace\n", b"ada")]
    result = simulate(load(str(file), ADDRESSES), votes)
    assert result.outputs == [b"ada: 1\n", b"grace: 1\n", b"ada: 2\n"]
    (totals,) = result.state.values()
    assert {key: total.votes for key, total in totals.items()} == {"ada": 2, "grace": 1}


def test_all_three_are_on_the_page() -> None:
    assert len(APPLICATIONS) == 3


def test_what_came_later_works_with_the_builder(tmp_path: Path) -> None:
    (tmp_path / "later.py").write_text(
        re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[-1]
    )
    application = load(str(tmp_path / "later.py"), ADDRESSES)
    start = wallaroo.hours(24 * 20_000)
    votes = [
        ("Votes", json.dumps({"candidate": name}).encode(), start + wallaroo.seconds(second))
        for second, name in ((0, "ada"), (30, "grace"), (59, "ada"), (60, "ada"), (90_000, "ada"))
    ]
    result = simulate(application, votes, until_ns=start + wallaroo.seconds(90_100))
    assert result.outputs == [b"ada: 2\n", b"grace: 1\n", b"ada: 3\n", b"ada: 1\n"]
    assert set(result.state["totals"]) == {"ada"}
