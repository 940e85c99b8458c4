"""What user code prints and logs becomes events, and is never the reason why a message fails."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from wallaroo.engine.spoken import _Handler, _Lines, _Spoken


@pytest.fixture
def heard() -> io.StringIO:
    return io.StringIO()


def events(heard: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in heard.getvalue().splitlines()]


def logged(spoken: _Spoken, message: str, *arguments: object) -> None:
    record = logging.LogRecord("mine", logging.INFO, "f.py", 7, message, arguments, None)
    _Handler(spoken).handle(record)


def test_a_line_is_told_with_its_place(heard: io.StringIO) -> None:
    spoken = _Spoken("Words", heard)
    print("printed", file=_Lines(spoken, "info"))
    logged(spoken, "%s of %d", "one", 2)
    first, second = events(heard)
    assert (first["event"], first["said"], first["application"]) == ("printed", "print", "Words")
    assert first["place"].startswith("test_spoken.py:")
    assert (second["event"], second["said"], second["place"]) == ("one of 2", "mine", "f.py:7")


def test_what_is_logged_wrongly_is_told_as_it_is(heard: io.StringIO) -> None:
    logged(_Spoken("Words", heard), "%d words", "no")
    (event,) = events(heard)
    assert event["event"].startswith("'%d words' cannot be logged: %d format")
    assert (event["level"], event["place"]) == ("error", "f.py:7")


def test_user_code_does_not_fail_where_nobody_takes_what_it_says() -> None:
    full = Path("/dev/full").open("w")  # noqa: SIM115  (closing it raises)
    spoken = _Spoken("Words", full)
    print("printed", file=_Lines(spoken, "info"))
    logged(spoken, "logged")
    with pytest.raises(OSError, match="No space left"):
        full.close()
