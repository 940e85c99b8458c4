"""The page of examples: whole applications, each of which does what the lines below it show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import serving
from tests.page_examples import SECOND_NS, page
from wallaroo.testing import load, simulate

PAGE = page("examples")
PRICES, DATABASE = "127.0.0.1:7030", "postgresql+psycopg://app@127.0.0.1/shop"


class _Prices(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"3")

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def prices() -> Iterator[str]:
    """The address of a service at which everything costs 3."""
    with serving(HTTPServer(("127.0.0.1", 0), _Prices)) as address:
        yield address


def plain(value: Any) -> Any:
    """*value* without the marks of what JSON has no type for."""
    if isinstance(value, dict):
        return value.get("$datetime") or {key: plain(of) for key, of in value.items()}
    return value


@pytest.mark.parametrize("number", range(3))
def test_an_example_does_what_it_shows(number: int, tmp_path: Path, prices: str) -> None:
    code, shown = PAGE.examples[number]
    assert len(PAGE.examples) == 3
    assert len(code.splitlines()) <= 60
    file = tmp_path / f"example_{number}.py"
    local = f"sqlite:///{tmp_path / 'shop.db'}"
    file.write_text(code.replace(PRICES, prices).replace(DATABASE, local))
    now_ns, messages, expected = 0, list[tuple[str, bytes, int]](), []
    for line in shown.splitlines():
        if line.startswith("< "):
            expected.append(json.loads(line[2:]))
        elif passed := re.fullmatch(r"\+(\d+) s", line):
            now_ns += int(passed[1]) * SECOND_NS
        else:
            name, payload = line.split("> ", 1)
            messages.append((name, payload.encode(), now_ns))
    application = load(str(file))
    result = simulate(application, messages, until_ns=now_ns)
    assert [plain(json.loads(output)) for output in result.outputs] == expected
    assert not result.set_aside
    assert not application.hints
