"""What every event looks like, whoever tells it."""

from __future__ import annotations

import json
import sys

import pytest
import structlog

from wallaroo import logs


class Pieces:
    """What was written, by call: other processes may write to the same place between two."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, text: str) -> None:
        self.written.append(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return False


def test_an_event_is_a_line_that_is_written_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = Pieces()
    monkeypatch.setattr(sys, "stderr", pieces)
    logs.configure()
    structlog.get_logger("wallaroo").info("ready", application="Gewürze")
    structlog.reset_defaults()
    (line,) = pieces.written
    assert line.endswith("}\n")
    told = json.loads(line)
    assert (told["event"], told["part"], told["level"]) == ("ready", "driver", "info")
    assert told["application"] == "Gewürze"
