"""The page about reading state names requests, statuses and parameters as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wallaroo.client import State
from wallaroo.dashboard import look_ups
from wallaroo.errors import RuntimeFailure
from wallaroo.wire.look_ups import MOST_BYTES, MOST_ON_PAGE

PAGE = (Path(__file__).parents[1] / "docs" / "reading-state.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_parameters_and_limits_are_those_of_the_server() -> None:
    (page,) = re.findall(r"`GET /state/NAME` .*", PAGE)
    assert set(re.findall(r"`(\w+)`", page)) >= look_ups.OF_PAGE
    assert all(f"?{name}=" in PAGE for name in look_ups.OF_KEY)
    assert f"1 to {MOST_ON_PAGE:,} entities" in page
    assert f"more than {MOST_BYTES // 1024**2} MiB" in PAGE
    assert f"longer than {look_ups.KEY_CHARACTERS:,} characters" in PAGE


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_in_python_read_state(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(_state: State, path: str) -> dict[str, object]:
        asked.append(path)
        entity = {"key": "z", "entity": {"word_totals": {}}, "position": 1}
        return entity if path.startswith("/") else {"entities": [entity], "next": None}

    monkeypatch.setattr(State, "_ask", ask)
    exec(example, {})
    assert asked == ["/%27z%27?literal=true", "?prefix=a&limit=1000"]


def test_without_a_dashboard_the_examples_say_so() -> None:
    with State("http://127.0.0.1:9/", "word totals") as totals, pytest.raises(RuntimeFailure):
        totals.get("z")
