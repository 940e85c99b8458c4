"""The page of joins: each example does what the lines below it show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import wallaroo
from tests.page_examples import check_example, page
from wallaroo.testing import load, simulate

PAGE = page("joins")


@pytest.mark.parametrize("number", range(len(PAGE.examples)))
def test_an_example_does_what_it_shows(number: int, tmp_path: Path) -> None:
    check_example(PAGE, number, tmp_path)


def test_every_example_is_found() -> None:
    assert len(PAGE.examples) == len(PAGE.blocks) - 2 == 4  # the first, and the one with a topic


def test_tombstones_delete_rows_of_a_table_from_a_topic(tmp_path: Path) -> None:
    (block,) = [block for block in PAGE.blocks if "KafkaSourceConfig" in block]
    (tmp_path / "table.py").write_text(PAGE.blocks[0] + block)
    ada, tombstone = (
        wallaroo.KafkaRecord(b'{"name": "Ada"}', b"7"),
        wallaroo.KafkaRecord(None, b"7"),
    )
    order = b'{"customer": 7}'
    messages = [("customers", ada), ("orders", order), ("customers", tombstone), ("orders", order)]
    found = simulate(load(tmp_path / "table.py"), messages)
    assert [json.loads(output)["name"] for output in found.outputs] == ["Ada", None]
    assert found.state == {"add the name": {}}
