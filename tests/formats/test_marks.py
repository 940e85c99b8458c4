"""A byte order mark, with which some editors begin files, is no part of a message."""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import NamedTuple

import pydantic
import pytest

import wallaroo
from tests.formats.kinds import TRADE
from wallaroo.codecs import avro_encoder, csv_decoder, csv_encoder, json_decoder, json_encoder
from wallaroo.testing import simulate

MARK = codecs.BOM_UTF8


class Row(NamedTuple):
    id: str
    name: str


class Model(pydantic.BaseModel):
    a: int


def test_before_a_row() -> None:
    assert csv_decoder(Row, header=True)(MARK + b"id,name\r") is None
    assert csv_decoder(Row)(MARK + b'"1",Ada') == Row("1", "Ada")
    assert csv_decoder(["a", "b"])(MARK + b"1,2") == {"a": "1", "b": "2"}
    assert csv_decoder()(MARK + b"1,2") == ["1", "2"]


def test_a_cell_may_begin_with_one() -> None:
    row = ["\ufeffa", "", "b"]
    assert csv_decoder()(csv_encoder()(row)) == row


def test_before_json() -> None:
    assert json_decoder()(MARK + b'{"a":1}') == {"a": 1}
    assert json_decoder(Model)(MARK + b'{"a":1}') == Model(a=1)
    for payload in (MARK, MARK + MARK + b"1", MARK + b'{"a":'):
        with pytest.raises(ValueError, match=r"JSON|truncated"):
            json_decoder()(payload)


def test_before_a_schema(tmp_path: Path) -> None:
    (tmp_path / "trade.avsc").write_bytes(MARK + json.dumps(TRADE).encode())
    encode = avro_encoder(tmp_path / "trade.avsc")
    assert encode({"symbol": "A", "price": 1.0})[:2] == b"\2A"


def test_files_that_begin_with_one(tmp_path: Path) -> None:
    config = wallaroo.FileSourceConfig
    files = {
        "rows": (b"id,name\r\n1,Ada\r\n2,Bob\r\n", csv_decoder(Row, header=True)),
        "json": (b'{"a":1}\r\n{"a":2}\r\n', json_decoder()),
    }
    sink = wallaroo.FileSinkConfig(str(tmp_path / "out"), json_encoder(), framing="lines")
    ends = [
        wallaroo.source(name, config(str(tmp_path / name), decode, framing="lines")).to_sink(sink)
        for name, (_, decode) in files.items()
    ]
    messages = [
        (name, line) for name, (text, _) in files.items() for line in (MARK + text).splitlines()
    ]
    result = simulate(wallaroo.build_application("marks", *ends), messages)
    assert not result.set_aside
    assert result.outputs == [b'["1","Ada"]', b'["2","Bob"]', b'{"a":1}', b'{"a":2}']
