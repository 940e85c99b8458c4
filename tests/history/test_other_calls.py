"""Calls that return something else each time are found in the modules of an application."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wallaroo.history.other_calls import other_calls
from wallaroo.testing import load

APPLICATION = """
import datetime as dt
import random
import time
import uuid
from datetime import datetime
from random import choice
from time import time as clock

import wallaroo
import of_another_calls

SEED = random.Random(1)


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(data):
    return [time.time(), datetime.now(), dt.datetime.utcnow(), clock()]


class Total:
    def __init__(self):
        self.id = uuid.uuid4()


@wallaroo.computation(name="fine")
def fine(message):
    time.sleep(0)
    time.monotonic()
    return SEED.random(), datetime(2026, 1, 1), wallaroo.now(), [choice("ab") for _ in "a"]


def application_setup(args):
    time.time()
    source = wallaroo.source("a", wallaroo.TCPSourceConfig("", 0, decode))
    sink = wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str))
    return wallaroo.build_application("A", source.to(fine).to_sink(sink))
"""
HELPER = "import secrets\n\n\ndef token():\n    return secrets.token_hex()\n"


def test_they_are_found_with_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other_calls_app.py").write_text(APPLICATION)
    (tmp_path / "of_another_calls.py").write_text(HELPER)
    monkeypatch.syspath_prepend(str(tmp_path))
    application = load(tmp_path / "other_calls_app.py")
    lines = APPLICATION.splitlines()
    at_decode = lines.index(
        "    return [time.time(), datetime.now(), dt.datetime.utcnow(), clock()]"
    )
    found = {(call, str(place)) for call, place in other_calls(application)}
    app = "other_calls_app.py"
    assert found == {
        *(
            (call, f"{app}:{at_decode + 1}")
            for call in ("time.time", "datetime.now", "dt.datetime.utcnow", "clock")
        ),
        ("uuid.uuid4", f"{app}:{lines.index('        self.id = uuid.uuid4()') + 1}"),
        ("choice", f"{app}:{at_decode + 13}"),
        ("secrets.token_hex", "of_another_calls.py:5"),
    }
    sys.modules.pop("of_another_calls", None)
