"""What every event looks like, whoever tells it."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
import structlog

from wallaroo.observability import logs


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


@pytest.fixture(params=["closed", "full"])
def unwritable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TextIO]:
    """A file that takes nothing: closed, or on a disk that is full."""
    file = Path("/dev/full") if request.param == "full" else tmp_path / "log"
    opened = file.open("w")
    if request.param == "closed":
        opened.close()
    yield opened
    with contextlib.suppress(OSError):
        opened.close()


def test_an_event_that_cannot_be_written_is_lost_and_no_more(
    monkeypatch: pytest.MonkeyPatch, unwritable: TextIO
) -> None:
    logs.configure()
    monkeypatch.setattr(sys, "stderr", unwritable)
    structlog.get_logger("wallaroo.gateway").warning("journal waits")
    logging.getLogger("library").warning("so it is")
    structlog.reset_defaults()


def test_a_library_that_logs_wrongly_gets_no_exception(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    logging.getLogger("library").warning("%d", "no number")
    structlog.reset_defaults()
    assert "no number" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["gateway", "gateway.journal", "driver", "wallaroo.gateway"])
def test_a_library_with_the_name_of_a_part_does_not_speak_for_it(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure()
    logging.getLogger(name).warning("trust me")
    structlog.reset_defaults()
    told = json.loads(capsys.readouterr().err)
    assert (told["part"], told["logger"], told["event"]) == ("application", name, "trust me")


def test_a_logger_with_any_other_name_is_the_applications(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure()
    structlog.get_logger("kafka").warning("trust me")
    structlog.reset_defaults()
    told = json.loads(capsys.readouterr().err)
    assert (told["part"], told["said"]) == ("application", "structlog")
